package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// activityView is what top shows of the answers of the service.
type activityView struct {
	addr  string
	order memoryv1.ActivityOrder
	now   *memoryv1.GetActivityResponse
	// before is the answer before, by which rates are those of the interval; nil: they are those of the last minute.
	before *memoryv1.GetActivityResponse
	// problem is why the service does not answer, "" where it does, and answered is when it did last.
	problem  string
	answered time.Time
}

// headLines is how many lines come before the tables, at most, with those between them.
const headLines = 8

// lines returns the lines of the view, none longer than width and no more than height; 0 is no limit.
func (v *activityView) lines(width, height int) []string {
	methods, namespaces := v.methods(), v.busiest()
	if height > 0 {
		// Half of the room is for each, and what one does not need is the other's.
		room := max(height-headLines, 2)
		shown := min(len(namespaces), max(room/2, room-len(methods)))
		namespaces = namespaces[:shown]
		methods = methods[:min(len(methods), room-shown)]
	}
	lines := v.head()
	columns := []string{"CALLS/S", "FAILED/S", "TIME/S", "P50", "P99", "MAX"}
	methods = slices.Insert(methods, 0, append([]string{"METHOD"}, columns...))
	rows := methods
	if len(namespaces) > 0 {
		rows = slices.Concat(rows, [][]string{{}, append([]string{"NAMESPACE"}, columns[:3]...)}, namespaces)
	}
	lines = append(append(lines, ""), align(rows, width)...)
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	if height > 0 {
		lines = lines[:min(len(lines), max(height, 0))]
	}
	return lines
}

// head returns the lines about the service as a whole.
func (v *activityView) head() []string {
	now := v.now
	first := fmt.Sprintf("memoryd %s at %s, up %s, %s", now.GetVersion(), v.addr,
		formatUptime(now.GetCurrentTime().AsTime().Sub(now.GetStartTime().AsTime())), formatTime(now.GetCurrentTime()))
	if v.problem != "" {
		first = "NO ANSWER since " + v.answered.UTC().Format("15:04:05Z") + ": " + v.problem
	}
	calls, failed := 0.0, 0.0
	for _, m := range now.GetMethods() {
		c, f := v.methodRates(m)
		calls, failed = calls+c, failed+f
	}
	missing := ""
	if n := now.GetMaxMissingCalls(); n > 0 {
		missing = fmt.Sprintf("; very many namespaces: each may have had %d calls a minute more", n)
	}
	head := []string{
		first,
		fmt.Sprintf("calls: %s/s, %s/s failed, %d of %d running; %s%s", formatRate(calls), formatRate(failed),
			now.GetRunningCalls(), now.GetMaxRunningCalls(), count(now.GetConnections(), "connection", "connections"), missing),
	}
	if s := now.GetStore(); s != nil {
		head = append(head, v.store(s))
	}
	return append(head, v.times())
}

// times says of how long a time the numbers are.
func (v *activityView) times() string {
	window := formatLatency(v.window())
	if v.before == nil {
		return "rates and latencies: of the last " + window
	}
	return fmt.Sprintf("calls, failed and commits in a second: of the last %s; namespaces and all else: of the last %s",
		formatLatency(v.interval()), window)
}

func (v *activityView) store(s *memoryv1.StoreActivity) string {
	commits := perSecond(s.GetRecentCommits(), v.window())
	if b := v.before.GetStore(); b != nil {
		commits = perSecond(s.GetCommits()-b.GetCommits(), v.interval())
	}
	text := fmt.Sprintf("store: %s, %s free; %s commits/s", formatSize(s.GetSizeBytes()), formatSize(s.GetFreeBytes()),
		formatRate(commits))
	if n := s.GetRecentCommits(); n > 0 {
		latency := s.GetCommitLatency()
		text += fmt.Sprintf(" of %s updates, p50 %s, p99 %s", formatRate(float64(s.GetRecentUpdates())/float64(n)),
			formatLatency(latency.GetP50().AsDuration()), formatLatency(latency.GetP99().AsDuration()))
	}
	return text + fmt.Sprintf("; %d waiting", s.GetWaitingUpdates())
}

// methods returns the rows of the methods.
func (v *activityView) methods() [][]string {
	type method struct {
		*memoryv1.MethodActivity
		calls, failed, time float64
	}
	all := make([]method, 0, len(v.now.GetMethods()))
	for _, m := range v.now.GetMethods() {
		calls, failed := v.methodRates(m)
		all = append(all, method{m, calls, failed, v.timeRate(m.GetRecentTotalTime().AsDuration())})
	}
	slices.SortStableFunc(all, func(a, b method) int {
		switch v.order {
		case memoryv1.ActivityOrder_ACTIVITY_ORDER_TIME:
			return cmp.Compare(b.time, a.time)
		case memoryv1.ActivityOrder_ACTIVITY_ORDER_FAILED:
			return cmp.Compare(b.failed, a.failed)
		default:
			return cmp.Compare(b.calls, a.calls)
		}
	})
	var rows [][]string
	for _, m := range all {
		latency := func(d interface{ AsDuration() time.Duration }) string {
			if m.GetLatency() == nil {
				return "-"
			}
			return formatLatency(d.AsDuration())
		}
		rows = append(rows, []string{
			strings.TrimPrefix(m.GetMethod(), "/memoryd.v1."),
			formatRate(m.calls), formatRate(m.failed), formatLatency(time.Duration(m.time)),
			latency(m.GetLatency().GetP50()), latency(m.GetLatency().GetP99()), latency(m.GetLatency().GetMax()),
		})
	}
	return rows
}

// busiest returns the rows of the namespaces, in the order of the service.
func (v *activityView) busiest() [][]string {
	var rows [][]string
	for _, n := range v.now.GetNamespaces() {
		rows = append(rows, []string{
			n.GetNamespace(),
			formatRate(perSecond(n.GetCalls(), v.window())), formatRate(perSecond(n.GetFailedCalls(), v.window())),
			formatLatency(time.Duration(v.timeRate(n.GetTotalTime().AsDuration()))),
		})
	}
	return rows
}

// methodRates returns how many calls of a method there were in a second, and how many of them failed.
func (v *activityView) methodRates(m *memoryv1.MethodActivity) (calls, failed float64) {
	if v.before == nil {
		return perSecond(m.GetRecentCalls(), v.window()), perSecond(m.GetRecentFailedCalls(), v.window())
	}
	var before *memoryv1.MethodActivity
	for _, b := range v.before.GetMethods() {
		if b.GetMethod() == m.GetMethod() {
			before = b
		}
	}
	return perSecond(m.GetCalls()-before.GetCalls(), v.interval()),
		perSecond(m.GetFailedCalls()-before.GetFailedCalls(), v.interval())
}

// timeRate returns how many nanoseconds of a time that was taken in the last minute fall on a second.
func (v *activityView) timeRate(took time.Duration) float64 {
	return perSecond(int64(took), v.window())
}

// window is how much of time is covered by what the service tells of the last minute.
func (v *activityView) window() time.Duration { return v.now.GetWindow().AsDuration() }

// interval is the time between the two answers.
func (v *activityView) interval() time.Duration {
	return v.now.GetCurrentTime().AsTime().Sub(v.before.GetCurrentTime().AsTime())
}

// perSecond returns a rate. What is shorter than a moment has none that would mean anything.
func perSecond(n int64, in time.Duration) float64 {
	const moment = 10 * time.Millisecond
	return float64(n) / max(in, moment).Seconds()
}

// align aligns rows: the first column on the left, the others on the right. Where a line would be longer than width,
// which is 0 for no limit, the first column is cut. A row has as many columns as it needs.
func align(rows [][]string, width int) []string {
	const least = 7 // of a column, so that few columns move when numbers change
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, least)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rest := 0
	for _, w := range widths[1:] {
		rest += 1 + w
	}
	if width > 0 {
		widths[0] = min(widths[0], max(width-rest, least))
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			if j == 0 {
				fmt.Fprintf(&line, "%-*s", widths[0], cut(cell, widths[0]))
			} else {
				fmt.Fprintf(&line, " %*s", widths[j], cell)
			}
		}
		lines[i] = line.String()
	}
	return lines
}

// cut returns a line without anything that would steer a terminal, in at most width characters; 0 is no limit.
func cut(line string, width int) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, line)
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

// formatRate writes a rate with two or three digits, such as 0, <0.1, 2.5, 250 or 2.5k.
func formatRate(r float64) string {
	switch {
	case r <= 0:
		return "0"
	case r < 0.05:
		return "<0.1"
	case r < 9.95:
		return strconv.FormatFloat(r, 'f', 1, 64)
	case r < 9_999.5:
		return strconv.FormatFloat(r, 'f', 0, 64)
	case r < 999_950:
		return strconv.FormatFloat(r/1e3, 'f', 1, 64) + "k"
	default:
		return strconv.FormatFloat(r/1e6, 'f', 1, 64) + "M"
	}
}

// formatLatency writes a duration with two or three digits, such as 25µs, 2.5ms or 25s.
func formatLatency(d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
		most float64
	}{
		{"µs", time.Microsecond, 999.5},
		{"ms", time.Millisecond, 999.5},
		{"s", time.Second, 99.5},
		{"m", time.Minute, 99.5},
	} {
		switch n := float64(d) / float64(unit.size); {
		case d <= 0:
			return "0"
		case n < 9.95:
			return strconv.FormatFloat(n, 'f', 1, 64) + unit.name
		case n < unit.most:
			return strconv.FormatFloat(n, 'f', 0, 64) + unit.name
		}
	}
	return strconv.FormatFloat(d.Hours(), 'f', 1, 64) + "h"
}

// formatUptime writes a duration with its two largest units, such as 3d4h.
func formatUptime(d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	switch minutes, hours := seconds/60, seconds/3600; {
	case minutes == 0:
		return fmt.Sprintf("%ds", seconds)
	case hours == 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds%60)
	case hours < 24:
		return fmt.Sprintf("%dh%dm", hours, minutes%60)
	default:
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
}
