package screen

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/logging"
)

// Rules that are not of gitleaks.
const (
	// RuleToken finds the tokens of memoryd.
	RuleToken = "memoryd-token"
	// RuleUnsearched stands for the rest of a text that could not be scanned in time. Its finding has the place where the
	// scan ended.
	RuleUnsearched = "unsearched"
)

// ruleGeneric is the rule that flags whatever stands after a word like "key".
const ruleGeneric = "generic-api-key"

func init() {
	// gitleaks logs what it finds, the secrets too, to standard error.
	logging.Logger = logging.Logger.Output(io.Discard)
}

// detectors are those of gitleaks. They change nothing but a counter that is atomic, so that any number of scans can
// share them.
type detectors struct {
	// rules has all rules but ruleGeneric.
	rules detector
	// generic has ruleGeneric alone. It is the dearest of all and only reports, so it must not keep the others from
	// searching the whole of a text in time.
	generic detector
}

// detector is a detector with the words of its rules: it finds nothing in a text that has none of them.
type detector struct {
	*detect.Detector
	words *words
}

// load makes the detectors, once for all screeners of the process: it takes about 50 ms, and 15 MB from then on.
var load = sync.OnceValues(func() (detectors, error) {
	// detect.NewDetectorDefaultConfig would replace the configuration that viper holds for the whole process.
	v := viper.New()
	v.SetConfigType("toml")
	if err := v.ReadConfig(strings.NewReader(config.DefaultConfig)); err != nil {
		return detectors{}, fmt.Errorf("read rules: %w", err)
	}
	var raw config.ViperConfig
	if err := v.Unmarshal(&raw); err != nil {
		return detectors{}, fmt.Errorf("read rules: %w", err)
	}
	cfg, err := raw.Translate()
	if err != nil {
		return detectors{}, fmt.Errorf("read rules: %w", err)
	}
	for id, rule := range cfg.Rules {
		if cfg.Rules[id], err = endAnywhere(rule); err != nil {
			return detectors{}, err
		}
	}
	generic, ok := cfg.Rules[ruleGeneric]
	if !ok {
		return detectors{}, fmt.Errorf("read rules: there is no %s", ruleGeneric)
	}
	delete(cfg.Rules, ruleGeneric)
	cfg.Rules[RuleToken] = tokenRule()
	return detectors{newDetector(cfg, cfg.Rules), newDetector(cfg, genericAlone(generic))}, nil
})

// Rules returns the ids of all rules that a Finding can have, in no order. It waits until the rules are loaded.
func Rules() ([]string, error) {
	all, err := load()
	if err != nil {
		return nil, err
	}
	ids := []string{RuleUnsearched}
	for _, d := range []detector{all.rules, all.generic} {
		for id, rule := range d.Config.Rules {
			if rule.Regex != nil && rule.Path == nil { // The others are for the names of files.
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// ends are what the rules of gitleaks want behind a secret, so as to see all of it, and what it is here. Sources have a
// quote, a blank or a semicolon there. Notes have any other sign too: "The key is ...."
var ends = strings.NewReplacer(
	`(?:[\x60'"\s;]|\\[nr]|$)`, `(?:[^0-9A-Za-z_+/=-]|$)`,
	`(?:$|[\\'"\x60\s<),])`, `(?:$|[^0-9A-Za-z_~-])`, // azure-ad-client-secret, and before its secret:
	`(?:^|[\\'"\x60\s>=:(,)])`, `(?:^|[^0-9A-Za-z_~.-])`,
	`)))(?:\s|\z)`, `)))(?:[^\w$@-]|\z)`, // curl-auth-user
	`(?:[\/|\#|\?|:]|$)`, `(?:[^0-9A-Za-z_-]|$)`, // sidekiq-sensitive-url
)

// endAnywhere is a rule that finds its secrets whatever sign is behind them.
func endAnywhere(rule config.Rule) (config.Rule, error) {
	if rule.Regex == nil {
		return rule, nil
	}
	re, err := regexp.Compile(ends.Replace(rule.Regex.String()))
	if err != nil {
		return rule, fmt.Errorf("read rule %s: %w", rule.RuleID, err)
	}
	rule.Regex = re
	return rule, nil
}

func newDetector(cfg config.Config, rules map[string]config.Rule) detector {
	cfg.Rules = rules
	cfg.Keywords = make(map[string]struct{})
	var list []string
	for _, rule := range rules {
		for _, keyword := range rule.Keywords {
			cfg.Keywords[keyword] = struct{}{}
		}
		list = append(list, rule.Keywords...)
		if len(rule.Keywords) == 0 && rule.Regex != nil { // It is for every text; the others are for the names of files.
			list = append(list, "")
		}
	}
	d := detect.NewDetector(cfg)
	d.IgnoreGitleaksAllow = true // or a comment in the text would switch detection off
	return detector{d, newWords(list)}
}

// genericAlone is ruleGeneric without the exceptions that look at the whole line of a match. They are tried for every
// match, and so would take hours for a line of 1 MB.
func genericAlone(rule config.Rule) map[string]config.Rule {
	rule.Allowlists = slices.DeleteFunc(slices.Clone(rule.Allowlists), func(a *config.Allowlist) bool {
		return a.RegexTarget == "line"
	})
	return map[string]config.Rule{ruleGeneric: rule}
}

// wholeMatches are the rules whose match is the secret, and not what gitleaks takes for it: a group of their expression
// that stands for a small part.
var wholeMatches = []string{"jwt-base64", "microsoft-teams-webhook"}

// tokenPrefix is what the tokens of memoryd begin with.
const tokenPrefix = "memoryd_"

func tokenRule() config.Rule {
	return config.Rule{
		RuleID:      RuleToken,
		Description: "A token of memoryd, which lets its bearer in.",
		Regex:       regexp.MustCompile(`\b(` + tokenPrefix + `[A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)`),
		Keywords:    []string{tokenPrefix},
		Entropy:     3,
	}
}

// ordinary matches words, numbers, UUIDs, and the hashes of commits and files. Rules that know a key by the name of a
// service before it flag all of them, as in "netlify commit: 1f8e..." and "dropbox: implementations".
var ordinary = regexp.MustCompile(`^(?:[A-Za-z]?[a-z]+|[0-9a-f-]+|[0-9A-F-]+)$`)

// examples are how the secrets end that documentation shows: those of jwt.io, and Slack's address of a webhook.
// gitleaks knows those of AWS.
var examples = []string{
	"eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ." +
		"SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
	"eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0." +
		"KMUFsIDTnFmyG3nMiGM6H9FNFUROf3wh7SmqJp-QV30",
	"hooks.slack.com/services/T00000000/B00000000/" + "XXXXXXXXXXXXXXXXXXXXXXXX",
}

func isExample(secret string) bool {
	return slices.ContainsFunc(examples, func(example string) bool { return strings.HasSuffix(secret, example) })
}
