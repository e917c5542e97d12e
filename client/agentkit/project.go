package agentkit

import (
	"path"
	"text/template"
	"time"

	"github.com/seed-7f2870e1/memoryd/client"
)

// The memory files of a project.
const (
	// ProgressPath is the progress log: what was done, and what comes next. The newest entry is at the top, so that it
	// is what remains where the file is shown in part.
	ProgressPath = "/memories/progress.md"
	// FeaturesPath is the checklist of features, which is the scope of the project.
	FeaturesPath = "/memories/features.md"
	// StartupPath says how the work is started: a reference to the start-up script.
	StartupPath = "/memories/startup.md"
	// RecordsDir is where the package keeps what it needs to know. Listings do not show it. A file in its place is moved
	// aside.
	RecordsDir = "/memories/.agentkit"
)

const root = "/memories"

const (
	// DefaultBudget is the most tokens that Session.Context has; see WithBudget.
	DefaultBudget = 8_000
	// DefaultCloseTimeout is how long Session.Close may take; see WithCloseTimeout.
	DefaultCloseTimeout = 15 * time.Second
)

// Project is a piece of work that goes over many sessions and has a namespace of its own. It is made by New, and is
// safe for concurrent use.
type Project struct {
	client       *client.Client
	namespace    string
	files        []file // what Initialize lays down
	pinned       []string
	budget       int
	countTokens  func(string) int
	closeTimeout time.Duration
}

// Option is an option of New.
type Option func(*Project)

// WithTemplate lays down a file with another text: that of ProgressPath, FeaturesPath or StartupPath in place of the
// package's own, or one more file. Its path is /memories/... and not RecordsDir or below it, or else Initialize fails;
// of several templates for one path the last is used. The template is executed with the Plan.
func WithTemplate(filePath string, t *template.Template) Option {
	filePath = path.Clean(filePath)
	return func(p *Project) {
		for i := range p.files {
			if p.files[i].path == filePath {
				p.files[i].template = t
				return
			}
		}
		p.files = append(p.files, file{filePath, t})
	}
}

// WithPinned sets the files whose contents are in Session.Context, in this order, which otherwise are ProgressPath,
// FeaturesPath and StartupPath. Of a directory it is the listing. /memories itself is always listed, and the records
// are never shown.
func WithPinned(paths ...string) Option {
	return func(p *Project) { p.pinned = paths }
}

// WithBudget sets the most tokens that Session.Context has, DefaultBudget otherwise. The text around the memory takes
// about 200 of them; Resume fails where the budget does not even have these.
//
// The record of a session is a file of the namespace with a copy of what Context shows: about as many bytes, and up to
// six times as many where they are control characters. Where that is more than the max_file_bytes of the namespace,
// half as many tokens of memory are shown, then half of that and so on, until it fits. Where not even a record of
// nothing fits, Context shows as much as the budget has room for and is not on record: a Resume that carries on with
// the session reads memory anew, and is not Restarted.
func WithBudget(tokens int) Option {
	return func(p *Project) { p.budget = tokens }
}

// WithTokenCounter counts tokens with another function than EstimateTokens. It is called some dozens of times by a
// Resume, some hundreds where it finds more tokens in the whole than in its parts, and possibly by several goroutines
// at once. The same text must always have the same number of tokens.
func WithTokenCounter(count func(text string) int) Option {
	return func(p *Project) { p.countTokens = count }
}

// WithCloseTimeout sets how long Session.Close may take, DefaultCloseTimeout otherwise, since it does not end with its
// context. While the service cannot be reached it takes as long; leave it less than whoever stops the process waits
// before a kill.
func WithCloseTimeout(d time.Duration) Option {
	return func(p *Project) { p.closeTimeout = d }
}

// New returns the project in a namespace; empty is client.DefaultNamespace.
func New(c *client.Client, namespace string, opts ...Option) *Project {
	p := &Project{
		client:       c,
		namespace:    namespace,
		files:        defaultFiles(),
		pinned:       []string{ProgressPath, FeaturesPath, StartupPath},
		budget:       DefaultBudget,
		countTokens:  EstimateTokens,
		closeTimeout: DefaultCloseTimeout,
	}
	for _, opt := range opts {
		opt(p)
	}
	return p
}
