package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/seed-7f2870e1/memoryd/cmd/memory-agent/internal/transcript"
)

// Options says what to play, and under which settings. Its zero value is nothing to play: begin with DefaultOptions.
type Options struct {
	// Seed and Turns are those of the generated run. There are 1 to 1,000 turns.
	Seed  uint64
	Turns int
	// Triggers and Keeps are the settings of the grid: the size of the prompt above which results are cleared, in
	// tokens, and how many of the latest results stay. All are 1 or more.
	Triggers, Keeps []int
	// ClearAtLeast, ClearMemory and Hold are the same for the whole grid; see Setting.
	ClearAtLeast int
	ClearMemory  bool
	Hold         bool
}

// DefaultOptions returns the options that the table in docs/context-editing.md is made with.
func DefaultOptions() Options {
	return Options{
		Seed: 1, Turns: 100,
		Triggers: []int{20_000, 30_000, 50_000, 100_000},
		Keeps:    []int{1, 3, 5, 10},
	}
}

// Check says which option cannot be used.
func (o Options) Check() error {
	switch {
	case o.Turns < 1 || o.Turns > maxTurns:
		return fmt.Errorf("turns %d: want 1 to %d", o.Turns, maxTurns)
	case len(o.Triggers) == 0 || slices.Min(o.Triggers) < 1:
		return fmt.Errorf("trigger %v: want 1 or more tokens, or several such numbers", o.Triggers)
	case len(o.Keeps) == 0 || slices.Min(o.Keeps) < 1:
		return fmt.Errorf("keep %v: want 1 or more results, or several such numbers; with 0 the model sees none", o.Keeps)
	case o.ClearAtLeast < 0:
		return fmt.Errorf("clear at least %d: want 0 or more tokens", o.ClearAtLeast)
	}
	return nil
}

// grid returns the settings to play: first without clearing, then with every trigger and number to keep.
func (o Options) grid(memory bool) []Setting {
	settings := []Setting{{Memory: memory}}
	for _, trigger := range o.Triggers {
		for _, keep := range o.Keeps {
			settings = append(settings, o.setting(memory, trigger, keep))
		}
	}
	return settings
}

func (o Options) setting(memory bool, trigger, keep int) Setting {
	return Setting{memory, trigger, keep, o.ClearAtLeast, o.ClearMemory, o.Hold}
}

// Row is what came of one setting.
type Row struct {
	Setting
	Counts
	// Saved is by how much the input tokens, and CachedSaved by how much the cost with prompt caching, are less than
	// without clearing and without memory, in percent. They are negative where it is more.
	Saved       float64 `json:"saved_percent"`
	CachedSaved float64 `json:"cached_saved_percent"`
}

// Report is what came of all settings.
type Report struct {
	// Generated or Recorded says what was played; the other one is nil.
	Generated *GeneratedRun `json:"generated,omitempty"`
	Recorded  *RecordedRun  `json:"recorded,omitempty"`
	// Rows are the settings of the grid. The first is without clearing and without memory.
	Rows []Row `json:"rows"`
	// Variations show what would change the result; there are none for a recorded run.
	Variations []Variation `json:"variations,omitempty"`
}

// GeneratedRun is what there is to say of a generated run.
type GeneratedRun struct {
	Seed         uint64 `json:"seed"`
	Turns        int    `json:"turns"`
	ResultTokens int    `json:"result_tokens"` // of all results together
}

// RecordedRun is what there is to say of a recorded run.
type RecordedRun struct {
	Model string `json:"model"`
	// MemoryViews is how often the model looked into its memory.
	MemoryViews int `json:"memory_views"`
	// Compactions is how many requests did nothing but summarize the conversation. They are not played.
	Compactions int `json:"compactions"`
	// Misfits is how many requests could not be given the size that the API counted.
	Misfits int `json:"misfits"`
}

// Variation is a setting of the grid, with something else than in the table.
type Variation struct {
	Name string `json:"name"`
	Row
}

// Generate plays a generated run under all settings.
func Generate(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	generator := Generator{Seed: o.Seed, Turns: o.Turns, PagePercent: 100}
	player := newPlayer(generator.Generate())
	settings := append(o.grid(false), o.grid(true)...)
	variants := o.variants(generator, player)
	jobs := jobsOf(player, settings)
	for _, v := range variants {
		jobs = append(jobs, jobsOf(v.player, []Setting{{}, v.setting})...)
	}
	counts, err := runAll(ctx, jobs)
	if err != nil {
		return nil, fmt.Errorf("play generated run: %w", err)
	}
	r := &Report{
		Generated: &GeneratedRun{o.Seed, o.Turns, player.research.Tokens()},
		Rows:      rows(player, settings, counts),
	}
	for _, v := range variants {
		pair := rows(v.player, []Setting{{}, v.setting}, counts)
		r.Variations = append(r.Variations, Variation{v.name, pair[1]})
	}
	return r, nil
}

// Replay plays a recorded run under all settings. The first row is the run as it would have been without clearing.
func Replay(ctx context.Context, t *transcript.Transcript, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	recording := newRecording(t)
	if len(recording.exchanges) == 0 {
		return nil, errors.New("play recorded run: it has only requests that summarize the conversation")
	}
	settings := o.grid(false)
	counts, err := runAll(ctx, jobsOf(recording, settings))
	if err != nil {
		return nil, fmt.Errorf("play recorded run: %w", err)
	}
	return &Report{Recorded: &recording.about, Rows: rows(recording, settings, counts)}, nil
}

// run is a run that can be played under any setting: a pointer, which tells it from others.
type run interface {
	play(ctx context.Context, s Setting) (Counts, error)
}

// job is a run to play under a setting.
type job struct {
	run     run
	setting Setting
}

func jobsOf(r run, settings []Setting) []job {
	jobs := make([]job, len(settings))
	for i, s := range settings {
		jobs[i] = job{r, s}
	}
	return jobs
}

// runAll plays runs, as many at once as there are processors, and each job once. The first failure ends all of them.
func runAll(ctx context.Context, jobs []job) (map[job]Counts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	counts := map[job]Counts{}
	next := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range next {
				c, err := j.run.play(ctx, j.setting)
				if err != nil {
					cancel(err)
				}
				mu.Lock()
				counts[j] = c
				mu.Unlock()
			}
		})
	}
	given := map[job]bool{}
	for _, j := range jobs {
		if !given[j] && ctx.Err() == nil {
			given[j] = true
			next <- j
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return counts, nil
}

// rows returns what came of a run under some settings, compared with the first of them.
func rows(r run, settings []Setting, counts map[job]Counts) []Row {
	list := make([]Row, len(settings))
	first := counts[job{r, settings[0]}]
	for i, s := range settings {
		c := counts[job{r, s}]
		list[i] = Row{
			Setting: s, Counts: c,
			Saved:       saved(first.InputTokens, c.InputTokens),
			CachedSaved: saved(first.CachedCost, c.CachedCost),
		}
	}
	return list
}

// saved is by how much a number is less than it was, in percent with one decimal.
func saved(was, is int) float64 {
	if was == 0 {
		return 0
	}
	return math.Round(1000*float64(was-is)/float64(was)) / 10
}
