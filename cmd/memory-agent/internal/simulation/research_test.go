package simulation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerate_Pinned pins every byte: the numbers in docs/context-editing.md hang on it, on every platform.
func TestGenerate_Pinned(t *testing.T) {
	for _, test := range []struct {
		generator Generator
		want      string
	}{
		{Generator{Seed: 1, Turns: 100, PagePercent: 100}, "4bcedd391be015978c5af37eafc6d135b3e630cebac934c1b6395bc93fb71360"},
		{Generator{Seed: 2, Turns: 100, PagePercent: 100}, "a395dfba2fb65f34fd868e20d755ae8ddf857a4381cfd95b7ee5ce10363098a1"},
		{Generator{Seed: 1, Turns: 1000, PagePercent: 200, FarBack: true}, "e3c5ff759647535a6687eb47979081b1327ccaf2443ed8335bc7af13eb7951dd"},
	} {
		text, err := json.Marshal(test.generator.Generate())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != test.want {
			t.Errorf("%+v: got SHA-256 %s, want %s", test.generator, got, test.want)
		}
	}
}

// TestGenerate_Sound: what the brief says can be read back, and can be done.
func TestGenerate_Sound(t *testing.T) {
	for _, turns := range []int{1, 2, 100, maxTurns} {
		r := Generator{Seed: 7, Turns: turns, PagePercent: 100}.Generate()
		if len(r.Steps) != turns {
			t.Fatalf("got %d steps, want %d", len(r.Steps), turns)
		}
		calls := map[string]bool{}
		for i, s := range r.Steps {
			key := s.Tool + " " + s.Argument
			if calls[key] {
				t.Errorf("step %d: %q is there twice", i+1, key)
			}
			calls[key] = true
			for _, f := range s.Facts {
				if f.Step != i+1 {
					t.Errorf("step %d: %v is of step %d", i+1, f, f.Step)
				}
			}
			want := plannedStep{tool: s.Tool, argument: s.Argument}
			if s.Need != nil {
				if s.Need.Step > i || !slices.Contains(r.Steps[s.Need.Step-1].Facts, *s.Need) {
					t.Errorf("step %d needs %v, which no step before has found", i+1, *s.Need)
				}
				want.need = &Fact{Attribute: s.Need.Attribute, Subject: s.Need.Subject, Step: s.Need.Step}
			}
			got, ok := findStep(r.Brief, i+1)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(plannedStep{})); !ok || diff != "" {
				t.Errorf("step %d is not in the brief (-want +got)\n%s", i+1, diff)
			}
		}
		if _, ok := findStep(r.Brief, turns+1); ok {
			t.Errorf("the brief has a step %d", turns+1)
		}
	}
}

// TestGenerate_Distribution holds the generator to what its comments say.
func TestGenerate_Distribution(t *testing.T) {
	var searches, pages []int
	needs, steps := 0, 0
	var back []int
	for seed := range uint64(300) {
		r := Generator{Seed: seed, Turns: 101, PagePercent: 100}.Generate()
		for i, s := range r.Steps {
			steps++
			if s.Tool == toolSearch {
				searches = append(searches, s.Tokens)
			} else {
				pages = append(pages, s.Tokens)
			}
			if s.Need != nil {
				needs++
			}
			if i == 100 && s.Need != nil { // with a hundred results to choose from
				back = append(back, 101-s.Need.Step)
			}
		}
	}
	between := func(name string, got, least, most int) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s: got %d, want %d to %d", name, got, least, most)
		}
	}
	slices.Sort(searches)
	slices.Sort(pages)
	slices.Sort(back)
	quantile := func(n []int, percent int) int { return n[(len(n)-1)*percent/100] }
	between("searches in percent", 100*len(searches)/steps, 39, 41)
	between("needs in percent", 100*needs/steps, 31, 33) // none in the first step
	between("smallest search", searches[0], 1000, 1010)
	between("middle search", quantile(searches, 50), 1950, 2050)
	between("largest search", quantile(searches, 100), 2990, 3000)
	between("smallest page", pages[0], 800, 850)
	between("page, 5 %", quantile(pages, 5), 1215, 1315)
	between("page, 50 %", quantile(pages, 50), 3900, 4100)
	between("page, 95 %", quantile(pages, 95), 12_000, 13_300)
	between("largest page", quantile(pages, 100), 24_000, 25_000)
	between("distance, 50 %", quantile(back, 50), 4, 11)
	between("distance, 90 %", quantile(back, 90), 40, 80)
}

func TestGenerate_FarBack(t *testing.T) {
	sum, n := 0, 0
	for seed := range uint64(300) {
		r := Generator{Seed: seed, Turns: 101, PagePercent: 100, FarBack: true}.Generate()
		if need := r.Steps[100].Need; need != nil {
			sum, n = sum+101-need.Step, n+1
		}
	}
	if mean := sum / n; mean < 40 || mean > 60 {
		t.Errorf("got a mean distance of %d of 1 to 100, want about 50", mean)
	}
}
