package duration

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestParse(t *testing.T) {
	const hour = time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "1d": 24 * hour, "30d": 720 * hour, "030d": 720 * hour, "30d12h": 732 * hour,
		"1d1.5h": 25*hour + 30*time.Minute, "0d5ns": 5, "1d0": 24 * hour, "12h": 12 * hour, "720h": 720 * hour,
		"+1h": hour, "-1h": -hour, "1.5h": 90 * time.Minute,
		"106751d":                             106751 * 24 * hour,
		"106751d23h47m16.854775807s":          math.MaxInt64,
		time.Duration(math.MaxInt64).String(): math.MaxInt64,
		time.Duration(math.MinInt64).String(): math.MinInt64,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1", "30", "30 d", " 30d", "30d ", "30D", "-30d", "+30d", "1.5d", "30d-1h", "30d+1h", "30dd", "1d2d",
		"12h30d", "1d2", "soon", "day", "30days", "1e3d", "0x1d", "1_0d", "106752d", "4294967297d",
		"99999999999999999999d", "106751d23h47m16.854775808s", "9223372036854775808ns",
	} {
		if got, err := Parse(text); !errors.Is(err, errSyntax) || got != 0 {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, errSyntax)
		}
	}
}

func TestValue(t *testing.T) {
	var d time.Duration
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Var((*Value)(&d), "for", "how long")
	if err := flags.Parse([]string{"--for=1d12h"}); err != nil {
		t.Fatal(err)
	}
	if got, err := flags.GetDuration("for"); err != nil || got != 36*time.Hour || d != got {
		t.Errorf("got %v, %v and %v, want 36h", got, err, d)
	}
	const want = `invalid argument "soon" for "--for" flag: want a duration such as 30d, 12h or 30d12h`
	if err := flags.Parse([]string{"--for=soon"}); err == nil || err.Error() != want || d != 36*time.Hour {
		t.Errorf("got %v and %v, want %s", err, d, want)
	}
}
