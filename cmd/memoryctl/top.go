package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// The flags of top.
const (
	intervalFlag   = "interval"
	namespacesFlag = "namespaces"
	sortFlag       = "sort"

	defaultInterval   = 2 * time.Second
	leastInterval     = 100 * time.Millisecond
	defaultNamespaces = 10
	mostNamespaces    = 100 // that the service tells
)

// topOrders are the values of --sort, in the order in which a key goes through them.
var topOrders = []struct {
	name  string
	order memoryv1.ActivityOrder
}{
	{"calls", memoryv1.ActivityOrder_ACTIVITY_ORDER_CALLS},
	{"time", memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME},
	{"failed", memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED},
}

func topOrderNames() []string {
	names := make([]string, len(topOrders))
	for i, o := range topOrders {
		names[i] = o.name
	}
	return names
}

func (c *cli) topCommand() *cobra.Command {
	var interval time.Duration
	var namespaces int32
	var sort string
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch what the service does: rates, latencies, busiest namespaces",
		Long: `Top shows what a running memoryd does, and draws it anew every --interval. It
needs the right admin on all namespaces, since it tells of the calls of all.

  CALLS/S   calls that ended in a second: of methods over the interval, of
            namespaces over the last minute
  FAILED/S  those of them that ended with an error, or with one as the result
  TIME/S    the time that calls took in a second, together: at 250ms a quarter
            of a call ran at a time. Over the last minute, as all that follows
  P50, P99  how long half, and 99 %, of the calls took at most
  MAX       how long the longest took

The keys: s goes on to the next order, q ends. Where standard output is no
terminal, or with --once, one table of the last minute is printed. With -o json
each answer of the service is one line, and the lines go on until interrupted.`,
		Example: `  memoryctl top                                 watch
  memoryctl top --sort failed --namespaces 50   who gets errors
  memoryctl top --once                          the last minute, as a table
  memoryctl top --once -o json | jq '.methods[] | {method, recentCalls}'`,
		GroupID:           groupAdmin,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&interval, intervalFlag, defaultInterval, "how long to wait until the next look")
	flags.BoolVar(&once, "once", false, "print one table, or with -o json one line, and end")
	flags.Int32Var(&namespaces, namespacesFlag, defaultNamespaces, "the most namespaces to show, `NUMBER` of 1 to 100")
	flags.StringVar(&sort, sortFlag, topOrders[0].name, "what comes first: most `calls|time|failed`")
	must(cmd.RegisterFlagCompletionFunc(sortFlag,
		cobra.FixedCompletions(topOrderNames(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = c.call(func(ctx context.Context, m *client.Client, _ []string) error {
		c.about = "all namespaces: admin on **"
		order, err := topOrder(sort)
		switch {
		case err != nil:
			return err
		case interval < leastInterval:
			return usageErrorf("--%s %s: want %s or more", intervalFlag, interval, leastInterval)
		case namespaces < 1 || namespaces > mostNamespaces:
			return usageErrorf("--%s %d: want 1 to %d", namespacesFlag, namespaces, mostNamespaces)
		}
		t := &top{c: c, get: m.GetActivity, interval: interval, namespaces: namespaces, order: order}
		switch {
		case c.output == outputJSON:
			return t.printLines(ctx, once)
		case once || !c.isTerminal(c.stdout):
			return t.printTable(ctx)
		}
		return t.watch(ctx)
	})
	return cmd
}

// topOrder returns the index in topOrders.
func topOrder(name string) (int, error) {
	for i, o := range topOrders {
		if o.name == name {
			return i, nil
		}
	}
	return 0, usageErrorf("--%s %q: want %s", sortFlag, name, strings.Join(topOrderNames(), ", "))
}

// top is one run of the command.
type top struct {
	c          *cli
	get        func(context.Context, *memoryv1.GetActivityRequest) (*memoryv1.GetActivityResponse, error)
	interval   time.Duration
	namespaces int32
	order      int // index in topOrders
}

// look asks the service once.
func (t *top) look(ctx context.Context, order int) (*memoryv1.GetActivityResponse, error) {
	resp, err := t.get(ctx, &memoryv1.GetActivityRequest{MaxNamespaces: t.namespaces, Order: topOrders[order].order})
	st := status.Convert(err)
	if st.Code() == codes.Unimplemented && client.Reason(err) == "" && strings.Contains(st.Message(), "unknown method") {
		return nil, status.Error(codes.Unimplemented, "this memoryd is older than memoryctl top: it cannot tell what it does")
	}
	return resp, err
}

// printTable prints what the last minute was like.
func (t *top) printTable(ctx context.Context) error {
	resp, err := t.look(ctx, t.order)
	if err != nil {
		return err
	}
	c := t.c
	view := activityView{addr: c.addr, order: topOrders[t.order].order, now: resp}
	return c.print(strings.Join(view.lines(0, 0), "\n") + "\n")
}

// printLines prints every answer as a line, until ctx is done.
func (t *top) printLines(ctx context.Context, once bool) error {
	for {
		resp, err := t.look(ctx, t.order)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // That is how it ends.
		}
		if err != nil {
			return err
		}
		if err := t.c.printJSON(resp); err != nil || once {
			return err
		}
		pause := time.NewTimer(t.interval)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
	}
}

// watch shows what the service does until somebody has seen enough.
func (t *top) watch(ctx context.Context) error {
	// Before the screen is taken: whoever is refused reads it where they typed.
	first, err := t.look(ctx, t.order)
	if err != nil {
		return err
	}
	screen, err := t.c.openScreen()
	if err != nil {
		return err
	}
	defer screen.close()
	return t.run(ctx, screen, first)
}

// looked is what became of one look.
type looked struct {
	order int
	began time.Time
	resp  *memoryv1.GetActivityResponse
	err   error
}

// lateIntervals is after how many intervals without an answer the screen says that what it shows is old.
const lateIntervals = 2

// keyInterrupt is Ctrl-C, for which a terminal that gives keys one by one sends no signal.
const keyInterrupt = 3

// run draws on a screen until ctx is done or a key ends it.
func (t *top) run(ctx context.Context, screen *screen, first *memoryv1.GetActivityResponse) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan looked, 1) // A look that is under way at the end is left behind.
	looking := false
	answered := time.Now() // when the last answer came
	late := time.NewTimer(lateIntervals * t.interval)
	late.Stop()
	defer late.Stop()
	look := func() {
		looking = true
		order, began := t.order, time.Now()
		late.Reset(lateIntervals * t.interval)
		go func() {
			resp, err := t.look(ctx, order)
			answers <- looked{order, began, resp, err}
		}()
	}
	defer func() {
		cancel()
		if looking {
			<-answers
		}
	}()
	next := time.NewTimer(t.interval)
	defer next.Stop()
	view := &activityView{addr: t.c.addr, order: topOrders[t.order].order, now: first}
	for {
		if err := screen.draw(t.page(view, screen)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			look()
		case <-late.C:
			view.fail("waiting for memoryd at "+t.c.addr, answered)
		case a := <-answers:
			looking = false
			late.Stop()
			if a.err == nil {
				answered = time.Now()
			}
			switch {
			case a.err != nil:
				view.fail(t.c.explain(a.err, a.began), answered)
			case a.order != t.order: // It was asked for before a key was pressed.
				look()
				continue
			default:
				view.update(a.resp, topOrders[a.order].order)
			}
			next.Reset(t.interval)
		case key, ok := <-screen.keys:
			switch {
			case !ok:
				screen.keys = nil
			case key == 'q' || key == 'Q' || key == keyInterrupt:
				return nil
			case key == 's' || key == 'S':
				t.order = (t.order + 1) % len(topOrders)
				if !looking {
					next.Stop()
					look()
				}
			}
		}
	}
}

// page returns the lines of a screen: the view, and below it how to go on.
func (t *top) page(view *activityView, screen *screen) []string {
	width, height := screen.size()
	lines := view.lines(width, max(height-1, 1))
	return append(lines, cut("q: quit   s: sort by "+topOrders[(t.order+1)%len(topOrders)].name+" (now: "+
		topOrders[t.order].name+")", width))
}

// update takes in what the service does now.
func (v *activityView) update(now *memoryv1.GetActivityResponse, order memoryv1.ActivityOrder) {
	v.before, v.now, v.order = v.now, now, order
	v.problem = ""
	if !proto.Equal(v.before.GetStartTime(), now.GetStartTime()) {
		v.before = nil // It was started anew, or another one answers: its counts are others.
	}
}

// fail notes why the service does not answer, and when it did last. What it said then stays.
func (v *activityView) fail(problem string, answered time.Time) {
	v.problem, v.answered = problem, answered
}
