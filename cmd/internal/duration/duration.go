// Package duration reads durations that may begin with days, which package time does not know: 30d, 12h or 30d12h. A
// day has 24 hours.
package duration

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// errSyntax is the one error of Parse. Whoever prints it says which text it is about.
var errSyntax = errors.New("want a duration such as 30d, 12h or 30d12h")

// Parse reads a duration as time.ParseDuration does, or a whole number of days, which another duration may follow.
// Durations without days may be negative.
func Parse(text string) (time.Duration, error) {
	count, rest, found := strings.Cut(text, "d")
	if !found {
		rest, count = text, "0"
	}
	days, err := strconv.ParseUint(count, 10, 32) // which takes no sign
	if err != nil || days > uint64(math.MaxInt64/day) {
		return 0, errSyntax
	}
	total := time.Duration(days) * day
	if found && rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	signed := rest != "" && (rest[0] == '-' || rest[0] == '+')
	if err != nil || found && signed || d > math.MaxInt64-total {
		return 0, errSyntax
	}
	return total + d, nil
}

// Value is a duration as the value of a flag of package pflag.
type Value time.Duration

// Set implements pflag.Value.
func (v *Value) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = Value(d)
	}
	return err
}

// String implements pflag.Value. What it returns time.ParseDuration reads, and so does FlagSet.GetDuration.
func (v *Value) String() string { return time.Duration(*v).String() }

// Type implements pflag.Value. To programs the flag is like any other with a duration.
func (*Value) Type() string { return "duration" }
