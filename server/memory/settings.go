package memory

import "fmt"

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
