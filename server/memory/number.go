package memory

import (
	"strconv"
	"strings"
)

// parseDigits reads decimal digits with an optional minus.
func parseDigits(s string) (int64, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseWholeFloat reads a JSON number that has a fraction or an exponent and is whole all the same, such as 5.0 or
// 1e2. It works on the digits: a float64 would round large numbers, and an exact fraction of 1e1000000000 would not
// fit in memory.
func parseWholeFloat(s string) (int64, bool) {
	mantissa, exponentText := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponentText = s[:i], s[i+1:]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	if strings.Trim(digits, "0") == "" {
		return 0, true
	}
	exponent, err := strconv.ParseInt(exponentText, 10, 32)
	if err != nil {
		return 0, false
	}

	// The number is digits times ten to the power of scale.
	significant := strings.TrimRight(digits, "0")
	scale := int(exponent) - len(fraction) + len(digits) - len(significant)
	significant = strings.TrimLeft(significant, "0")
	const maxDigits = 19 // of an int64
	if scale < 0 || len(significant)+scale > maxDigits {
		return 0, false
	}
	text := significant + strings.Repeat("0", scale)
	if negative {
		text = "-" + text
	}
	return parseDigits(text)
}
