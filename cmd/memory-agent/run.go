package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/client/claudetest"
	"github.com/seed-7f2870e1/memoryd/cmd/internal/connect"
)

const (
	// defaultModel is asked where --model is not given.
	defaultModel = anthropic.ModelClaudeSonnet5_5
	// apiRetries is how often the SDK repeats a request that the API could not take on. A session is long, and it would
	// be a pity to end it because of a minute of overload.
	apiRetries = 5
	// maxSessionBytes is the longest name of a session that agentkit and the service take.
	maxSessionBytes = 128
	// keyVariable is where the SDK finds the key.
	keyVariable = "ANTHROPIC_API_KEY"
)

// The question about the documents that are built in, and the checklist for it.
const defaultQuestion = "Why were our lights dark last winter, and what has to be replaced before the next one?"

var defaultItems = []string{
	"When was each light dark, and what was wrong with its charge relay?",
	"Which lights had nights below 4 °C, and at what cold do relays of lot 47 stick?",
	"What did the workshop find inside the relays of lot 47?",
	"Which lights still carry a relay of lot 47 after the last round?",
	"How many spare relays are in the stores, and how long does an order take?",
}

// runOptions are the flags of run.
type runOptions struct {
	addr, namespace string
	connection      connect.Flags
	dialOptions     []client.Option // by connection and the environment
	docs            string
	question        string
	items           []string
	limit           int
	session         string
	model           string
	offline         bool
	maxTurns        int
	clearing        clearing
	transcript      string
	holdAfter       int64

	questionGiven, itemsGiven bool
}

func (c *cli) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run one session of the agent",
		Long: `Run runs one session of the agent: it reads what earlier sessions left in the
memory, works on what is open, and records what it did. Interrupt it, even with
kill -9, and run it again: it carries on.

It needs a memoryd; "memoryd" alone starts one. With ANTHROPIC_API_KEY set it
asks Claude, which costs money. Without, or with --offline, a few rules answer
in the place of Claude: they search, quote and tick, and conclude nothing.

The question and the checklist are for a memory that is new. A memory that has
them keeps them; another question is for another --namespace.

Documents are text files in UTF-8 of up to 1 MiB, in DIR and the directories
below it; at most 1,000 are seen. Hidden files and symbolic links are left out.`,
		Example: `  memory-agent run
  memory-agent run --limit 1                     one item of the checklist
  memory-agent run -n lights --docs ./reports --question "Which parts fail?" \
      --item "What broke, and when?" --item "What do the parts have in common?"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.settle(cmd); err != nil {
				return err
			}
			c.ran = o
			return c.runSession(cmd.Context(), &o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.addr, "addr", client.DefaultTarget,
		"address of memoryd, `HOST:PORT` or unix:///path (environment: MEMORYCTL_ADDR)")
	flags.StringVarP(&o.namespace, "namespace", "n", client.DefaultNamespace,
		"`NAME` of the memory (environment: MEMORYCTL_NAMESPACE)")
	flags.StringVar(&o.docs, "docs", "", "`DIR` with the documents (default: nine that are built in)")
	flags.StringVar(&o.question, "question", defaultQuestion, "what to find out")
	flags.StringArrayVar(&o.items, "item", nil,
		"`QUESTION` for the checklist, may be repeated (default: one for the documents that are built in, else the question)")
	flags.IntVar(&o.limit, "limit", 0, "how many items of the checklist to work on in this session; 0 is all")
	flags.StringVar(&o.session, "session", "", "`NAME` of the session, for the record (default: one with the time)")
	flags.StringVar(&o.model, "model", defaultModel, "model to ask")
	flags.BoolVar(&o.offline, "offline", false, "do not ask Claude, even with a key")
	flags.IntVar(&o.maxTurns, "max-turns", 200, "how many answers of the model to ask for at most; 0 is no limit")
	flags.Int64Var(&o.clearing.trigger, "trigger", 30_000,
		"clear old tool results when a prompt has this many `TOKENS`; 0 is never")
	flags.Int64Var(&o.clearing.keep, "keep", 3, "how many of the latest tool results to keep then")
	flags.Int64Var(&o.clearing.atLeast, "clear-at-least", 10_000,
		"`TOKENS` that a clearing must gain, or else it is not made; 0 is any")
	flags.StringVar(&o.transcript, "transcript", "", "new `FILE` to write the run to, for memory-agent simulate")
	o.connection.Add(cmd, flags)
	flags.Int64Var(&o.holdAfter, "hold-after-change", 0, "stop dead after so many changes of the memory")
	must(flags.MarkHidden("hold-after-change"))
	return cmd
}

// settle lets the environment speak where a flag was not given, and checks what was.
func (o *runOptions) settle(cmd *cobra.Command) error {
	flags := cmd.Flags()
	for _, f := range []struct {
		name, env string
		value     *string
	}{
		{"addr", "MEMORYCTL_ADDR", &o.addr},
		{"namespace", "MEMORYCTL_NAMESPACE", &o.namespace},
	} {
		if env := os.Getenv(f.env); env != "" && !flags.Changed(f.name) {
			*f.value = env
		}
		if *f.value == "" {
			return usageErrorf("--%s is empty", f.name)
		}
	}
	var err error
	if o.dialOptions, err = o.connection.Options(flags, os.Getenv); err != nil {
		return usageErrorf("%v", err)
	}
	o.question = strings.TrimSpace(o.question)
	o.questionGiven, o.itemsGiven = flags.Changed("question"), flags.Changed("item")
	switch {
	case len(o.session) > maxSessionBytes:
		return usageErrorf("--session has more than %d bytes", maxSessionBytes)
	case o.question == "":
		return usageErrorf("--question is empty")
	case strings.Contains(o.question, "\n"):
		return usageErrorf("--question has more than one line")
	case strings.ContainsFunc(o.session, unicode.IsControl):
		return usageErrorf("--session %q: want a line of text", o.session)
	case o.limit < 0:
		return usageErrorf("--limit %d: want 0 or more", o.limit)
	case o.clearing.keep < 1:
		return usageErrorf("--keep %d: want 1 or more; the agent needs the result of its last call", o.clearing.keep)
	case o.clearing.trigger < 0:
		return usageErrorf("--trigger %d: want 0 or more", o.clearing.trigger)
	case o.clearing.atLeast < 0:
		return usageErrorf("--clear-at-least %d: want 0 or more", o.clearing.atLeast)
	case o.maxTurns < 0:
		return usageErrorf("--max-turns %d: want 0 or more", o.maxTurns)
	}
	if o.items == nil {
		o.items = []string{o.question}
		if o.question == defaultQuestion {
			o.items = defaultItems
		}
	}
	for _, item := range o.items {
		if strings.TrimSpace(item) == "" || strings.Contains(item, "\n") {
			return usageErrorf("--item %q: want a line of text", item)
		}
	}
	if o.session == "" {
		o.session = time.Now().UTC().Format("session-20060102-150405.000")
	}
	return nil
}

// survey says which documents there are, and refuses a directory without any.
func (o *runOptions) survey(ctx context.Context, documents *library) (string, error) {
	found, err := documents.survey(ctx)
	switch {
	case ctx.Err() != nil:
		return "", err
	case err != nil:
		return "", usageErrorf("--docs %s: %v", o.docs, err)
	case found.documents == 0:
		return "", usageErrorf("--docs %s: there is no document in it%s. %s", o.docs, found.without(), documentLimits)
	case o.docs == "":
		return count(found.documents, "document", "documents") + " that are built in", nil
	}
	return count(found.documents, "document", "documents") + " in " + o.docs + found.without(), nil
}

// runSession makes an agent of the options and runs it.
func (c *cli) runSession(ctx context.Context, o *runOptions) (err error) {
	documents, err := openLibrary(o.docs)
	if err != nil {
		return usageErrorf("--docs: %v", err)
	}
	defer func() { _ = documents.close() }() // it was only read
	found, err := o.survey(ctx, documents)
	if err != nil {
		return err
	}
	memory, err := client.Dial(o.addr, append(o.dialOptions, client.WithRetryBudget(c.retryBudget))...)
	if err != nil {
		return usageErrorf("%v", err)
	}
	defer func() { _ = memory.Close() }() // nothing is under way any more
	features, err := readChecklist(ctx, memory, o.namespace)
	if err != nil {
		return err
	}
	about, err := o.agree(features)
	if err != nil {
		return err
	}

	a := &agent{
		memory: memory, namespace: o.namespace, session: o.session,
		documents: documents, question: o.question, items: o.items, limit: o.limit,
		model: o.model, maxTurns: o.maxTurns, clearing: o.clearing,
		out: &printer{w: c.stdout}, hold: hold{after: o.holdAfter},
	}
	if o.transcript != "" {
		file, err := createTranscript(o.transcript)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeTranscript(file)) }()
		a.transcript = file
	}

	a.out.printf("session %s\n", o.session)
	switch hasKey := os.Getenv(keyVariable) != ""; {
	case o.offline:
		a.out.printf("model   a few rules, offline; tokens are estimates\n")
	case !hasKey:
		a.out.printf("model   a few rules, offline, as %s is not set; tokens are estimates\n", keyVariable)
		o.offline = true
	default:
		a.out.printf("model   %s\n", o.model)
	}
	a.out.printf("docs    %s\n", found)
	a.out.printf("memory  %s at %s\n", o.namespace, o.addr)
	if about != "" {
		a.out.printf("        about: %s\n", quoted(about))
	}
	if features != "" && o.itemsGiven && !o.hasItems(features) {
		a.out.printf("        it keeps its checklist: --item is for a memory that is new\n")
	}
	if o.offline {
		// Ids of tool calls must not come again in another process: memoryd takes a call with the id of an earlier one,
		// in a session of the same name, for the same call.
		api, err := claudetest.Start(offlineModel{}, claudetest.WithIDPrefix(rand.Text()), claudetest.WithoutBodies())
		if err != nil {
			return err
		}
		defer api.Close()
		a.api = api.Client()
	} else {
		a.api = anthropic.NewClient(option.WithMaxRetries(apiRetries))
	}
	return a.run(ctx)
}

// createTranscript makes the file of a transcript.
func createTranscript(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, usageErrorf("--transcript %s: there is a file already; a transcript has one session", name)
	case err != nil:
		return nil, usageErrorf("--transcript: %v", err)
	}
	return file, nil
}

// closeTranscript closes the file of a transcript, and removes it where nothing came of it.
func closeTranscript(file *os.File) error {
	info, err := file.Stat()
	err = errors.Join(err, file.Close())
	if err == nil && info.Size() == 0 {
		err = os.Remove(file.Name())
	}
	if err != nil {
		return fmt.Errorf("close transcript: %w", err)
	}
	return nil
}
