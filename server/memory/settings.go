package memory

import (
	"fmt"
	"slices"
	"strings"
)

// CreateOnExisting is what create does where a file exists.
type CreateOnExisting uint8

// The values of CreateOnExisting. They are stored: never reorder them.
const (
	// CreateError is an error, and the file stays as it was.
	CreateError CreateOnExisting = 1
	// CreateOverwrite replaces the file.
	CreateOverwrite CreateOnExisting = 2
)

// Settings are the settings of a namespace; a field that is nil takes the default.
type Settings struct {
	// CreateOnExisting is what create does where a file exists.
	CreateOnExisting *CreateOnExisting
	// ViewMaxChars is the most code points that view shows of a file or listing; 0 is no limit.
	ViewMaxChars *int64
	// MaxFileBytes is the most bytes that a file may have: 1 to the constant MaxFileBytes.
	MaxFileBytes *int64
}

// or returns the settings with those of another where a field is nil.
func (s Settings) or(other Settings) Settings {
	if s.CreateOnExisting == nil {
		s.CreateOnExisting = other.CreateOnExisting
	}
	if s.ViewMaxChars == nil {
		s.ViewMaxChars = other.ViewMaxChars
	}
	if s.MaxFileBytes == nil {
		s.MaxFileBytes = other.MaxFileBytes
	}
	return s
}

// InvalidError is a name or setting that is out of its range. Its text says what is allowed.
type InvalidError struct {
	// Field is the name of what is invalid: namespace, a setting, or page_token.
	Field string
	// Text is the whole message.
	Text string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Text }

// validate checks the fields that are not nil.
func (s Settings) validate() error {
	if c := s.CreateOnExisting; c != nil && *c != CreateError && *c != CreateOverwrite {
		return &InvalidError{"create_on_existing", "create_on_existing must be error or overwrite"}
	}
	if n := s.ViewMaxChars; n != nil && *n < 0 {
		return &InvalidError{"view_max_chars", fmt.Sprintf("view_max_chars is %d; it must be 0 (no limit) or more", *n)}
	}
	if n := s.MaxFileBytes; n != nil && (*n < 1 || *n > MaxFileBytes) {
		return &InvalidError{"max_file_bytes", fmt.Sprintf("max_file_bytes is %d; it must be 1 to %d", *n, MaxFileBytes)}
	}
	return nil
}

// setting is one of Settings, by the name that it has outside.
type setting struct {
	name string
	take func(to *Settings, from Settings)
	text func(Settings) string
}

var allSettings = []setting{
	{
		"create_on_existing",
		func(to *Settings, from Settings) { to.CreateOnExisting = from.CreateOnExisting },
		func(s Settings) string { return optional(s.CreateOnExisting) },
	},
	{
		"view_max_chars",
		func(to *Settings, from Settings) { to.ViewMaxChars = from.ViewMaxChars },
		func(s Settings) string { return optional(s.ViewMaxChars) },
	},
	{
		"max_file_bytes",
		func(to *Settings, from Settings) { to.MaxFileBytes = from.MaxFileBytes },
		func(s Settings) string { return optional(s.MaxFileBytes) },
	},
}

// optional writes a value that may be absent.
func optional[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// SettingNames returns the names of all settings, such as view_max_chars.
func SettingNames() []string {
	names := make([]string, len(allSettings))
	for i, s := range allSettings {
		names[i] = s.name
	}
	return names
}

// SettingsChange is a change of the settings of a namespace. It is a Command, though none of the memory tool.
type SettingsChange struct {
	// Settings are the new values.
	Settings Settings
	// Names are the settings to change; one whose value is nil returns to the default. None are those with a value.
	Names []string
}

// changes tells whether the change is about a setting.
func (c SettingsChange) changes(s setting) bool {
	return slices.Contains(c.Names, s.name) || len(c.Names) == 0 && s.text(c.Settings) != ""
}

func (c SettingsChange) validate() error {
	for _, name := range c.Names {
		if !slices.Contains(SettingNames(), name) {
			return &InvalidError{"update_mask", "update_mask may name " + strings.Join(SettingNames(), ", ")}
		}
	}
	if !slices.ContainsFunc(allSettings, c.changes) {
		return &InvalidError{"settings", "settings must have one of " + strings.Join(SettingNames(), ", ")}
	}
	return c.Settings.validate()
}

// Name implements Command.
func (SettingsChange) Name() string { return "update_namespace" }

// Writes implements Command.
func (SettingsChange) Writes() bool { return true }

func (SettingsChange) paths() []string { return nil }

func (c SettingsChange) fields() []string {
	var fields []string
	for _, s := range allSettings {
		if c.changes(s) {
			fields = append(fields, s.name, s.text(c.Settings))
		}
	}
	return fields
}

func (c SettingsChange) run(t *tree, _ []Path) (Result, error) {
	t.begin()
	for _, s := range allSettings {
		if c.changes(s) {
			s.take(&t.header.settings, c.Settings)
		}
	}
	return Result{Revision: t.header.revision}, nil
}
