package memory

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
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

// SecretsPolicy is what happens where a text that is written contains what looks like a secret.
type SecretsPolicy uint8

// The values of SecretsPolicy. They are stored: never reorder them.
const (
	// SecretsOff is that nobody looks.
	SecretsOff SecretsPolicy = 1
	// SecretsReport writes the text; Options.Report tells of it.
	SecretsReport SecretsPolicy = 2
	// SecretsMask writes [REDACTED] in its place, and a note beside the result.
	SecretsMask SecretsPolicy = 3
	// SecretsRefuse writes nothing.
	SecretsRefuse SecretsPolicy = 4
)

// Limits of settings that are about time.
const (
	// MinExpireUnreadAfter is the shortest ExpireUnreadAfter but 0: views are recorded once an hour.
	MinExpireUnreadAfter = time.Hour
	// MaxCallsPerSecond is the largest CallsPerSecond; no store makes as many.
	MaxCallsPerSecond = 1_000_000
)

// Settings are the settings of a namespace; a field that is nil takes the default.
type Settings struct {
	// CreateOnExisting is what create does where a file exists.
	CreateOnExisting *CreateOnExisting
	// ViewMaxChars is the most code points that view shows of a file or listing; 0 is no limit.
	ViewMaxChars *int64
	// MaxFileBytes is the most bytes that a file may have: 1 to the constant MaxFileBytes.
	MaxFileBytes *int64
	// MaxFiles is the most files that the namespace may have; 0 is no limit. Directories are limited too, to
	// directoriesPerFile times as many.
	MaxFiles *int64
	// MaxTotalBytes is the most bytes that all files may have together; 0 is no limit.
	MaxTotalBytes *int64
	// CallsPerSecond is how many commands may be executed a second, over time, and at once for a moment; 0 is no limit.
	CallsPerSecond *int64
	// ExpireUnreadAfter is how long after a file was last viewed or changed Expire removes it: MinExpireUnreadAfter or
	// more; 0 is never.
	ExpireUnreadAfter *time.Duration
	// Secrets is what happens where a text that is written contains what looks like a secret.
	Secrets *SecretsPolicy
}

// setting is one of Settings, by the name that it has outside.
type setting struct {
	name    string
	present func(*Settings) bool
	take    func(to, from *Settings)
	text    func(*Settings) string // "" where it is nil
	append  func(b []byte, s *Settings) []byte
	decode  func(d *decoder, s *Settings)
}

// allSettings are stored in this order, and the place of each is its flag: add new ones at the end.
var allSettings = []setting{
	newSetting("create_on_existing", func(s *Settings) **CreateOnExisting { return &s.CreateOnExisting },
		appendByte[CreateOnExisting], decodeByte[CreateOnExisting]),
	newSetting("view_max_chars", func(s *Settings) **int64 { return &s.ViewMaxChars },
		binary.AppendVarint, (*decoder).varint),
	newSetting("max_file_bytes", func(s *Settings) **int64 { return &s.MaxFileBytes },
		binary.AppendVarint, (*decoder).varint),
	newSetting("max_files", func(s *Settings) **int64 { return &s.MaxFiles },
		binary.AppendVarint, (*decoder).varint),
	newSetting("max_total_bytes", func(s *Settings) **int64 { return &s.MaxTotalBytes },
		binary.AppendVarint, (*decoder).varint),
	newSetting("calls_per_second", func(s *Settings) **int64 { return &s.CallsPerSecond },
		binary.AppendVarint, (*decoder).varint),
	newSetting("expire_unread_after", func(s *Settings) **time.Duration { return &s.ExpireUnreadAfter },
		func(b []byte, d time.Duration) []byte { return binary.AppendVarint(b, int64(d)) },
		func(d *decoder) time.Duration { return time.Duration(d.varint()) }),
	newSetting("secrets", func(s *Settings) **SecretsPolicy { return &s.Secrets },
		appendByte[SecretsPolicy], decodeByte[SecretsPolicy]),
}

func newSetting[T any](
	name string, field func(*Settings) **T, appendTo func([]byte, T) []byte, decode func(*decoder) T,
) setting {
	return setting{
		name:    name,
		present: func(s *Settings) bool { return *field(s) != nil },
		take:    func(to, from *Settings) { *field(to) = *field(from) },
		text: func(s *Settings) string {
			if v := *field(s); v != nil {
				return fmt.Sprint(*v)
			}
			return ""
		},
		append: func(b []byte, s *Settings) []byte { return appendTo(b, **field(s)) },
		decode: func(d *decoder, s *Settings) { *field(s) = new(decode(d)) },
	}
}

func appendByte[T ~uint8](b []byte, v T) []byte { return append(b, byte(v)) }

func decodeByte[T ~uint8](d *decoder) T { return T(d.byte()) }

// or returns the settings with those of another where a field is nil. Every command asks for it, so that it is written
// out: the functions of allSettings would move both to the heap.
func (s Settings) or(other Settings) Settings {
	return Settings{
		CreateOnExisting:  cmp.Or(s.CreateOnExisting, other.CreateOnExisting),
		ViewMaxChars:      cmp.Or(s.ViewMaxChars, other.ViewMaxChars),
		MaxFileBytes:      cmp.Or(s.MaxFileBytes, other.MaxFileBytes),
		MaxFiles:          cmp.Or(s.MaxFiles, other.MaxFiles),
		MaxTotalBytes:     cmp.Or(s.MaxTotalBytes, other.MaxTotalBytes),
		CallsPerSecond:    cmp.Or(s.CallsPerSecond, other.CallsPerSecond),
		ExpireUnreadAfter: cmp.Or(s.ExpireUnreadAfter, other.ExpireUnreadAfter),
		Secrets:           cmp.Or(s.Secrets, other.Secrets),
	}
}

// InvalidError is a name or setting that is out of its range. Its text says what is allowed.
type InvalidError struct {
	// Field is the name of what is invalid: namespace, a setting, or page_token.
	Field string
	// Text is the whole message.
	Text string
	// Value and Want are, of a setting, its value and what it must be.
	Value any
	Want  string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Text }

// Validate returns an *InvalidError for the first field that is not nil and out of its range.
func (s Settings) Validate() error {
	if c := s.CreateOnExisting; c != nil && *c != CreateError && *c != CreateOverwrite {
		return invalidSetting("create_on_existing", *c, "error or overwrite")
	}
	if n := s.ViewMaxChars; n != nil && *n < 0 {
		return invalidSetting("view_max_chars", *n, "0 (no limit) or more")
	}
	if n := s.MaxFileBytes; n != nil && (*n < 1 || *n > MaxFileBytes) {
		return invalidSetting("max_file_bytes", *n, fmt.Sprintf("1 to %d", MaxFileBytes))
	}
	if n := s.MaxFiles; n != nil && *n < 0 {
		return invalidSetting("max_files", *n, "0 (no limit) or more")
	}
	if n := s.MaxTotalBytes; n != nil && *n < 0 {
		return invalidSetting("max_total_bytes", *n, "0 (no limit) or more")
	}
	if n := s.CallsPerSecond; n != nil && (*n < 0 || *n > MaxCallsPerSecond) {
		return invalidSetting("calls_per_second", *n, fmt.Sprintf("0 (no limit) to %d", MaxCallsPerSecond))
	}
	if d := s.ExpireUnreadAfter; d != nil && *d != 0 && *d < MinExpireUnreadAfter {
		return invalidSetting("expire_unread_after", *d, fmt.Sprintf("0s (never), or %s or more", MinExpireUnreadAfter))
	}
	if p := s.Secrets; p != nil && (*p < SecretsOff || *p > SecretsRefuse) {
		return invalidSetting("secrets", *p, "off, report, mask or refuse")
	}
	return nil
}

// invalidSetting is the error of a setting. The numbers of an enum are not shown: to the caller they are names.
func invalidSetting(name string, value any, want string) *InvalidError {
	e := &InvalidError{Field: name, Value: value, Want: "it must be " + want}
	switch value.(type) {
	case int64, time.Duration:
		e.Text = fmt.Sprintf("%s is %v; it must be %s", name, value, want)
	default:
		e.Text = name + " must be " + want
	}
	return e
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
	return slices.Contains(c.Names, s.name) || len(c.Names) == 0 && s.present(&c.Settings)
}

func (c SettingsChange) validate() error {
	for _, name := range c.Names {
		if !slices.Contains(SettingNames(), name) {
			return &InvalidError{
				Field: "update_mask", Text: "update_mask may name " + strings.Join(SettingNames(), ", "),
			}
		}
	}
	if !slices.ContainsFunc(allSettings, c.changes) {
		return &InvalidError{
			Field: "settings", Text: "settings must have one of " + strings.Join(SettingNames(), ", "),
		}
	}
	return c.Settings.Validate()
}

// Name implements Command.
func (SettingsChange) Name() string { return "update_namespace" }

// Writes implements Command.
func (SettingsChange) Writes() bool { return true }

func (SettingsChange) paths() (paths [2]string, n int) { return paths, 0 }

func (c SettingsChange) fields() []string {
	var fields []string
	for _, s := range allSettings {
		if c.changes(s) {
			fields = append(fields, s.name, s.text(&c.Settings))
		}
	}
	return fields
}

func (c SettingsChange) run(t *tree, _ []Path) (Result, error) {
	t.begin()
	for _, s := range allSettings {
		if c.changes(s) {
			s.take(&t.header.settings, &c.Settings)
		}
	}
	return Result{Revision: t.header.revision}, nil
}
