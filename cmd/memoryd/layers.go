package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/seed-7f2870e1/memoryd/cmd/internal/duration"
)

// envPrefix is what the names of the environment variables begin with.
const envPrefix = "MEMORYD_"

// lookupEnv is os.LookupEnv.
type lookupEnv func(name string) (value string, ok bool)

// settings are the values in force, and where each comes from.
type settings struct {
	values  *koanf.Koanf
	sources map[string]string
	keys    []string // in the order of the flags

	lookupEnv lookupEnv
}

// loadSettings lays the flags that were given over the environment, that over the file, and that over the defaults.
func loadSettings(flags *pflag.FlagSet, lookupEnv lookupEnv) (*settings, error) {
	s := &settings{values: koanf.New("."), sources: map[string]string{}, lookupEnv: lookupEnv}
	all := allSettings()
	all.VisitAll(func(f *pflag.Flag) {
		s.keys = append(s.keys, f.Name)
		s.sources[f.Name] = "default"
	})
	if err := s.values.Load(posflag.Provider(all, ".", s.values), nil); err != nil {
		return nil, fmt.Errorf("read defaults: %w", err)
	}

	env, err := envLayer(lookupEnv)
	if err != nil {
		return nil, err
	}
	if path := configFile(flags, env); path != "" {
		layer, err := fileLayer(path)
		if err != nil {
			return nil, settingErrorf("read config file %s: %w", path, err)
		}
		if err := s.lay(layer, func(*pflag.Flag) string { return "file " + path }); err != nil {
			return nil, err
		}
	}
	if err := s.lay(env, func(f *pflag.Flag) string { return "env " + envName(f.Name) }); err != nil {
		return nil, err
	}
	if err := s.lay(flags, func(*pflag.Flag) string { return "flag" }); err != nil {
		return nil, err
	}
	return s, nil
}

// lay lays the flags of a layer that are set over the values so far.
func (s *settings) lay(layer *pflag.FlagSet, source func(*pflag.Flag) string) error {
	if err := s.values.Load(posflag.Provider(layer, ".", nil), nil); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	layer.Visit(func(f *pflag.Flag) { s.sources[f.Name] = source(f) })
	return nil
}

// envLayer reads the environment variables of the settings and no others: Kubernetes sets names such as MEMORYD_PORT
// by itself.
func envLayer(lookupEnv lookupEnv) (*pflag.FlagSet, error) {
	layer := allSettings()
	var err error
	layer.VisitAll(func(f *pflag.Flag) {
		value, ok := lookupEnv(envName(f.Name))
		if ok && err == nil && layer.Set(f.Name, value) != nil {
			err = settingErrorf("%s is %q: it must be %s", envName(f.Name), value, kindOf(f))
		}
	})
	return layer, err
}

// envName is the environment variable of a setting.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// configFile is the file with settings, "" for none.
func configFile(flags, env *pflag.FlagSet) string {
	if f := flags.Lookup(keyConfig); f.Changed {
		return f.Value.String()
	}
	return env.Lookup(keyConfig).Value.String()
}

// fileLayer reads a YAML file whose keys are the names of settings.
func fileLayer(path string) (*pflag.FlagSet, error) {
	content := koanf.New(".")
	if err := content.Load(file.Provider(path), yaml.Parser()); err != nil {
		return nil, err
	}
	layer := allSettings()
	for _, key := range content.Keys() {
		f := layer.Lookup(key)
		if f == nil || key == keyConfig {
			return nil, fmt.Errorf("unknown key %q; the keys are %s", key, strings.Join(fileKeys(layer), ", "))
		}
		text, ok := yamlText(f, content.Get(key))
		if !ok || layer.Set(key, text) != nil {
			return nil, fmt.Errorf("key %q is %v: it must be %s", key, content.Get(key), kindOf(f))
		}
	}
	return layer, nil
}

func fileKeys(layer *pflag.FlagSet) []string {
	var keys []string
	layer.VisitAll(func(f *pflag.Flag) { keys = append(keys, f.Name) })
	return slices.DeleteFunc(keys, func(key string) bool { return key == keyConfig })
}

// yamlText is a value of the file as its flag would be given, if it is of the type of the flag.
func yamlText(f *pflag.Flag, value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		switch f.Value.Type() {
		case "string", "stringSlice", "duration":
			return v, true
		}
	case bool:
		return fmt.Sprint(v), f.Value.Type() == "bool"
	case int, int64:
		return fmt.Sprint(v), f.Value.Type() == "int" || f.Value.Type() == "int64"
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			if items[i], ok = item.(string); !ok {
				return "", false
			}
		}
		return strings.Join(items, ","), f.Value.Type() == "stringSlice"
	}
	return "", false
}

// kindOf says what the value of a flag must be.
func kindOf(f *pflag.Flag) string {
	if _, ok := f.Value.(*duration.Value); ok {
		return "a duration, such as 30d, 12h or 30d12h"
	}
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "int", "int64":
		return "a whole number"
	case "duration":
		return "a duration, such as 10s or 1m30s"
	case "stringSlice":
		return "a text, or a list of texts"
	default:
		return "a text"
	}
}
