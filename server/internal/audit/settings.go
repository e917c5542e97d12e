package audit

import (
	"encoding/json"
	"maps"
	"slices"
)

// Settings are settings by name with their new values, as a JSON object with sorted keys. NewSettings makes them; "" is
// none.
type Settings string

// NewSettings returns settings as a line of the trail can hold them: too many are cut, and so is what is too long.
func NewSettings(values map[string]string) Settings {
	if len(values) == 0 {
		return ""
	}
	kept := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values))[:min(len(values), maxSettings)] {
		kept[bounded(name, maxNameBytes)] = bounded(values[name], maxNameBytes)
	}
	text, err := json.Marshal(kept)
	if err != nil { // Strings can always be encoded.
		return ""
	}
	return Settings(text)
}

// MarshalJSON implements json.Marshaler.
func (s Settings) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Settings) UnmarshalJSON(text []byte) error {
	var values map[string]string
	err := json.Unmarshal(text, &values)
	*s = NewSettings(values)
	return err
}
