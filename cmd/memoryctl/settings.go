package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/duration"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// setting is one setting of a namespace.
type setting struct {
	flag, usage string
	field       string // its name in an update mask
	completions []string
	set         func(s *memoryv1.NamespaceSettings, value string) error
	get         func(s *memoryv1.NamespaceSettings) (value string, present bool)
}

var settings = []setting{
	choiceSetting("create-on-existing", "what create does where the file exists (`error|overwrite|default`)",
		func(s *memoryv1.NamespaceSettings) **memoryv1.CreateOnExisting { return &s.CreateOnExisting },
		map[string]memoryv1.CreateOnExisting{
			"error":     memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR,
			"overwrite": memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE,
		}),
	numberSetting("view-max-chars", "the most characters that view shows, 0 for all (`N|default`)", "16000",
		func(s *memoryv1.NamespaceSettings) **int64 { return &s.ViewMaxChars }),
	numberSetting("max-file-bytes", "the most bytes of a file, 1 to 8388608 (`N|default`)", "1048576",
		func(s *memoryv1.NamespaceSettings) **int64 { return &s.MaxFileBytes }),
	numberSetting("max-files", "the most files, 0 for no limit (`N|default`)", "5000",
		func(s *memoryv1.NamespaceSettings) **int64 { return &s.MaxFiles }),
	numberSetting("max-total-bytes", "the most bytes of all files together, 0 for no limit (`N|default`)", "1073741824",
		func(s *memoryv1.NamespaceSettings) **int64 { return &s.MaxTotalBytes }),
	numberSetting("calls-per-second", "the most calls a second of all callers, 0 for no limit (`N|default`)", "20",
		func(s *memoryv1.NamespaceSettings) **int64 { return &s.CallsPerSecond }),
	durationSetting("expire-unread-after",
		"remove files not viewed or changed for so long, such as 30d or 12h; 0s for never (`DURATION|default`)", "30d",
		func(s *memoryv1.NamespaceSettings) **durationpb.Duration { return &s.ExpireUnreadAfter }),
	choiceSetting("secrets", "what happens to a secret in a text that is written (`off|report|mask|refuse|default`)",
		func(s *memoryv1.NamespaceSettings) **memoryv1.SecretsPolicy { return &s.Secrets },
		map[string]memoryv1.SecretsPolicy{
			"off":    memoryv1.SecretsPolicy_SECRETS_POLICY_OFF,
			"report": memoryv1.SecretsPolicy_SECRETS_POLICY_REPORT,
			"mask":   memoryv1.SecretsPolicy_SECRETS_POLICY_MASK,
			"refuse": memoryv1.SecretsPolicy_SECRETS_POLICY_REFUSE,
		}),
}

// newSetting makes a setting of a field; example is a value that completion offers.
func newSetting[T any](
	flag, usage string, field func(*memoryv1.NamespaceSettings) **T,
	parse func(string) (*T, error), format func(*T) string, examples ...string,
) setting {
	return setting{
		flag:        flag,
		usage:       usage,
		field:       strings.ReplaceAll(flag, "-", "_"),
		completions: append(examples, "default"),
		set: func(s *memoryv1.NamespaceSettings, value string) (err error) {
			*field(s), err = parse(value)
			return err
		},
		get: func(s *memoryv1.NamespaceSettings) (string, bool) {
			if s == nil || *field(s) == nil {
				return "", false
			}
			return format(*field(s)), true
		},
	}
}

func choiceSetting[T comparable](
	flag, usage string, field func(*memoryv1.NamespaceSettings) **T, choices map[string]T,
) setting {
	var names []string
	for name := range choices {
		names = append(names, name)
	}
	slices.Sort(names)
	parse := func(value string) (*T, error) {
		if choice, ok := choices[value]; ok {
			return &choice, nil
		}
		return nil, errors.New("want " + strings.Join(names, ", ") + " or default")
	}
	format := func(choice *T) string {
		for _, name := range names {
			if choices[name] == *choice {
				return name
			}
		}
		return "unknown" // to this version
	}
	return newSetting(flag, usage, field, parse, format, names...)
}

func numberSetting(flag, usage, example string, field func(*memoryv1.NamespaceSettings) **int64) setting {
	format := func(n *int64) string { return strconv.FormatInt(*n, 10) }
	return newSetting(flag, usage, field, wholeNumber, format, example)
}

func wholeNumber(value string) (*int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return nil, errors.New("want a whole number or default")
	}
	return &n, nil
}

func durationSetting(
	flag, usage, example string, field func(*memoryv1.NamespaceSettings) **durationpb.Duration,
) setting {
	format := func(d *durationpb.Duration) string { return d.AsDuration().String() }
	return newSetting(flag, usage, field, parseDuration, format, example)
}

func parseDuration(value string) (*durationpb.Duration, error) {
	d, err := duration.Parse(value)
	if err != nil || d < 0 {
		return nil, errors.New("want a duration such as 30d or 12h, or default")
	}
	return durationpb.New(d), nil
}
