package rpc

import (
	"slices"
	"strings"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// setting is one of the settings of a namespace. Package memory checks its range.
type setting struct {
	// name is its name in an update_mask.
	name string
	// given tells whether a request has a value of it.
	given func(*memoryv1.NamespaceSettings) bool
	// set takes over the value of a request, or its absence.
	set func(*memory.Settings, *memoryv1.NamespaceSettings)
}

var settings = []setting{
	{
		name:  "create_on_existing",
		given: func(s *memoryv1.NamespaceSettings) bool { return s.CreateOnExisting != nil },
		set: func(to *memory.Settings, from *memoryv1.NamespaceSettings) {
			to.CreateOnExisting = fromCreateOnExisting(from.CreateOnExisting)
		},
	},
	{
		name:  "view_max_chars",
		given: func(s *memoryv1.NamespaceSettings) bool { return s.ViewMaxChars != nil },
		set:   func(to *memory.Settings, from *memoryv1.NamespaceSettings) { to.ViewMaxChars = from.ViewMaxChars },
	},
	{
		name:  "max_file_bytes",
		given: func(s *memoryv1.NamespaceSettings) bool { return s.MaxFileBytes != nil },
		set:   func(to *memory.Settings, from *memoryv1.NamespaceSettings) { to.MaxFileBytes = from.MaxFileBytes },
	},
}

// settingsChange reads the change that UpdateNamespace asks for: of the settings that the mask names or, without one,
// of those that are given.
func settingsChange(from *memoryv1.NamespaceSettings, mask []string) (func(memory.Settings) memory.Settings, error) {
	if from == nil {
		from = &memoryv1.NamespaceSettings{}
	}
	for _, name := range mask {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }) {
			return nil, invalid("update_mask", "update_mask may name %s", settingNames())
		}
	}
	var changed []setting
	for _, s := range settings {
		if slices.Contains(mask, s.name) || len(mask) == 0 && s.given(from) {
			changed = append(changed, s)
		}
	}
	if len(changed) == 0 {
		return nil, invalid("settings", "settings must have one of %s", settingNames())
	}
	return func(to memory.Settings) memory.Settings {
		for _, s := range changed {
			s.set(&to, from)
		}
		return to
	}, nil
}

func settingNames() string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// fromCreateOnExisting turns a value that is none of the enum into one that package memory refuses.
func fromCreateOnExisting(from *memoryv1.CreateOnExisting) *memory.CreateOnExisting {
	if from == nil {
		return nil
	}
	var to memory.CreateOnExisting
	switch *from {
	case memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR:
		to = memory.CreateError
	case memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE:
		to = memory.CreateOverwrite
	case memoryv1.CreateOnExisting_CREATE_ON_EXISTING_UNSPECIFIED:
	}
	return &to
}

func toCreateOnExisting(from *memory.CreateOnExisting) *memoryv1.CreateOnExisting {
	if from == nil {
		return nil
	}
	if *from == memory.CreateOverwrite {
		return memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum()
	}
	return memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR.Enum()
}
