package screen

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
)

// signs are what a secret may have behind it in notes.
var signs = []string{
	".", ",", ")", "]", "}", ">", "<", "*", "!", "?", ":", ";", "&", "|", "`", "'", `"`, "」", "…", `\n`, "\t", "\r\n", "\n", " ", "",
}

// Every rule finds its secrets whatever sign is behind them. One of a later gitleaks that has another end fails here.
func TestScan_SignBehind(t *testing.T) {
	s := unhurried()
	g := generator{rand.New(rand.NewPCG(5, 6))}
	for _, rule := range allRules(t) {
		t.Run(rule.RuleID, func(t *testing.T) {
			// Every end is an alternative of a sign and the end of the text.
			pattern := optionalEnd.ReplaceAllString(rule.Regex.String(), "")
			tried := false
			for try := 0; try < 500 && !tried; try++ {
				text := rule.Keywords[g.IntN(len(rule.Keywords))] + " " + g.text(pattern)
				secret := secretOf(scanText(t, s, text), rule.RuleID)
				if secret == nil || secret.End != len(text) {
					continue
				}
				tried = true
				for _, sign := range signs {
					got := secretOf(scanText(t, s, text+sign+" and so on"), rule.RuleID)
					if got == nil || got.SecretStart != secret.SecretStart || got.SecretEnd < secret.SecretEnd {
						t.Errorf("%q with %q behind it: %+v, want %+v", text, sign, got, secret)
					}
				}
			}
			if !tried {
				t.Error("nothing is found without a sign behind it")
			}
		})
	}
}

var optionalEnd = regexp.MustCompile(`\(\?:(?:\[\^[^\]]+\]\|(?:\$|\\z)|\$\|\[\^[^\]]+\])\)$`)

func secretOf(found []Finding, rule string) *Finding {
	i := slices.IndexFunc(found, func(f Finding) bool { return f.Rule == rule })
	if i < 0 {
		return nil
	}
	return &found[i]
}
