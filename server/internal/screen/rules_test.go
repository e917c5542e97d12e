package screen

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRules(t *testing.T) {
	want := []string{RuleUnsearched, ruleGeneric}
	for _, rule := range allRules(t) {
		want = append(want, rule.RuleID)
	}
	got, err := Rules()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, rule := range []string{RuleToken, ruleGeneric, "github-pat"} {
		if !slices.Contains(got, rule) {
			t.Errorf("%s is missing", rule)
		}
	}
}
