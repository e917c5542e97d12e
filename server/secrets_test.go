package server

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/encoding/protojson"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/internal/ops"
	"github.com/seed-7f2870e1/memoryd/server/internal/screen"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/kv/memkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// githubToken is put together here, so that it does not look like one to those who search sources.
var githubToken = "ghp_" + "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX"

// Where secrets are masked or refused, nothing of one that was sent is left anywhere: not in the answers, the log, the
// audit trail, the metrics, nor the files of the store, however it is sent.
func TestSecrets_NothingLeft(t *testing.T) {
	for _, policy := range []memory.SecretsPolicy{memory.SecretsMask, memory.SecretsRefuse} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			dir := t.TempDir()
			log := &logBuffer{}
			r := start(t, Config{
				Data: filepath.Join(dir, "data"), Logger: log.logger(), AuditLog: filepath.Join(dir, "audit.log"),
				HTTP: "127.0.0.1:0", Defaults: memory.Settings{Secrets: &policy},
			})
			ctx := t.Context()
			memories, files := memoryv1.NewMemoryServiceClient(r.conn), memoryv1.NewFileServiceClient(r.conn)
			half := len(githubToken) / 2
			var answers []fmt.Stringer
			refused := 0
			took := func(resp interface {
				fmt.Stringer
				GetResult() *memoryv1.ToolResult
			}, err error,
			) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, resp)
				if resp.GetResult().GetReason() == memoryv1.Reason_REASON_SECRET_REFUSED {
					refused++
				}
			}
			for i := range 2 { // The second time the policy is known, and the request too.
				id := func(name string) string { return fmt.Sprint(name, i/2) }
				resp, err := memories.Create(ctx, &memoryv1.CreateRequest{
					Namespace: "acme", RequestId: id("c"), Path: "/memories/a", FileText: "token: " + githubToken + "\n",
				})
				took(resp, err)
			}
			input := `{"command":"create","path":"/memories/b","file_text":"x\n` + githubToken[:half] + `"}`
			exec, err := memories.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: "acme", Input: input})
			took(exec, err)
			replace, err := memories.StrReplace(ctx, &memoryv1.StrReplaceRequest{
				Namespace: "acme", Path: "/memories/b", OldStr: githubToken[half-4 : half], NewStr: githubToken[half-4:],
			})
			took(replace, err)
			apply, err := memories.Apply(ctx, &memoryv1.ApplyRequest{
				Namespace: "acme", Commands: []*memoryv1.ApplyCommand{
					{Input: `{"command":"create","path":"/memories/c","file_text":"fine"}`},
					{Input: `{"command":"insert","path":"/memories/c","insert_line":1,"insert_text":"` + githubToken + `"}`},
				},
			})
			took(apply, err)
			put, err := files.Put(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []*memoryv1.PutRequest{
				{Part: &memoryv1.PutRequest_Header{Header: &memoryv1.PutHeader{Namespace: "acme", Path: "/memories/d"}}},
				{Part: &memoryv1.PutRequest_Chunk{Chunk: []byte(githubToken)}},
			} {
				if err := put.Send(part); err != nil {
					t.Fatal(err)
				}
			}
			done, err := put.CloseAndRecv()
			took(done, err)

			if want := map[memory.SecretsPolicy]int{memory.SecretsRefuse: 5}[policy]; refused != want {
				t.Errorf("%d calls refused, want %d: %v", refused, want, answers)
			}
			if policy == memory.SecretsMask {
				if view := resultText(t, memories, "/memories/b"); !strings.Contains(view, "     2\t[REDACTED]") {
					t.Errorf("the file is not masked: %q", view)
				}
			}
			_, metrics := httpGet(t, r, "/metrics")
			if want := fmt.Sprintf("\nmemoryd_secrets_found_total{done=%q,rule=\"github-pat\"} ", secretDone(policy)); !strings.Contains(
				metrics, want) {
				t.Errorf("the metrics lack %q", want)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if want := fmt.Sprintf(`"msg":"secret","namespace":"acme","path":"/memories/a","rule":"github-pat","line":1,`+
				`"count":1,"done":%q}`, secretDone(policy)); !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log.String())
			}

			left := map[string]string{"log": log.String(), "metrics": metrics}
			for i, answer := range answers {
				left[fmt.Sprint("answer ", i)] = answer.String()
			}
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				left[path] = string(data)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(left) < 2+len(answers)+2 {
				t.Errorf("searched only %d places", len(left))
			}
			for place, text := range left {
				if strings.Contains(text, githubToken[half:]) {
					t.Errorf("the secret is in %s", place)
				}
			}
		})
	}
}

func resultText(t *testing.T, memories memoryv1.MemoryServiceClient, path string) string {
	t.Helper()
	view, err := memories.View(t.Context(), &memoryv1.ViewRequest{Namespace: "acme", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return view.GetResult().GetContent()[0].GetText()
}

// By default secrets are written, and the log and the metrics tell of them.
func TestSecrets_Reported(t *testing.T) {
	log := &logBuffer{}
	r := start(t, Config{Logger: log.logger(), HTTP: "127.0.0.1:0"})
	memories := memoryv1.NewMemoryServiceClient(r.conn)
	_, err := memories.Create(t.Context(), &memoryv1.CreateRequest{
		Namespace: "acme", Path: "/memories/a", FileText: "\n" + githubToken + "\n" + githubToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	if view := resultText(t, memories, "/memories/a"); !strings.Contains(view, githubToken) {
		t.Errorf("not written: %q", view)
	}
	want := `"msg":"secret","namespace":"acme","path":"/memories/a","rule":"github-pat","line":2,"count":2,"done":"written"}`
	if !strings.Contains(log.String(), want) || strings.Contains(log.String(), githubToken) {
		t.Errorf("log:\n%s\nwant %s", log, want)
	}
	_, metrics := httpGet(t, r, "/metrics")
	if want := "\nmemoryd_secrets_found_total{done=\"written\",rule=\"github-pat\"} 2\n"; !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %q", want)
	}
}

// Screen tells where secrets are, page by page, and not what they are.
func TestSecrets_Screen(t *testing.T) {
	r := start(t, Config{})
	ctx := t.Context()
	memories, admin := memoryv1.NewMemoryServiceClient(r.conn), memoryv1.NewAdminServiceClient(r.conn)
	const files = 3
	for i := range files {
		_, err := memories.Create(ctx, &memoryv1.CreateRequest{
			Namespace: "acme", Path: fmt.Sprint("/memories/", i),
			FileText: strings.Repeat("line\n", i) + githubToken + strings.Repeat("\nfiller", 1<<17),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	resp, err := admin.Screen(ctx, &memoryv1.ScreenRequest{Namespace: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetFileCount() != files || resp.GetNextPageToken() != "" || strings.Contains(resp.String(), githubToken) {
		t.Errorf("got %s", protojson.Format(resp))
	}
	for i, f := range resp.GetFindings() {
		if f.GetPath() != fmt.Sprint("/memories/", i) || f.GetRule() != "github-pat" || f.GetLine() != int64(i+1) {
			t.Errorf("finding %d: %s", i, protojson.Format(f))
		}
	}
	if n := len(resp.GetFindings()); n != files {
		t.Errorf("%d findings, want %d", n, files)
	}
	if _, err := admin.Screen(ctx, &memoryv1.ScreenRequest{Namespace: "acme", PageToken: "!"}); err == nil {
		t.Error("a bad page token was taken")
	}
	empty, err := admin.Screen(ctx, &memoryv1.ScreenRequest{Namespace: "nobody"})
	if err != nil || len(empty.GetFindings()) != 0 || empty.GetFileCount() != 0 {
		t.Errorf("an empty namespace: %v, %v", empty, err)
	}
}

// busy is a Screener that is always busy with others.
type busy struct{ memory.Screener }

// Turn implements memory.Screener.
func (busy) Turn(ctx context.Context, _ string, _ int) (end func(), err error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A service that stops gives up what it has not searched yet, and says so, however calls have ended.
func TestSweeper_EndsReports(t *testing.T) {
	for _, cutOff := range []bool{false, true} {
		log, metrics := &logBuffer{}, ops.NewMetrics("test")
		m, err := memory.New(memkv.New(), memory.Options{
			Screener: busy{}, Report: secretReporter{log.logger(), metrics}.report,
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := newSweeper(m, &auditor{}, metrics, log.logger()).begin(t.Context())
		cmd := memory.Create{Path: "/memories/a", FileText: githubToken}
		if res, err := m.Do(t.Context(), "acme", cmd, memory.Call{}); err != nil || res.IsError() {
			t.Fatalf("create: %v, %v", res, err)
		}
		stop(cutOff)
		want := `"msg":"secret","namespace":"acme","path":"/memories/a","rule":"unsearched","line":1,"count":1,"done":"written"}`
		if !strings.Contains(log.String(), want) {
			t.Errorf("cut off %t: log:\n%s\nwant %s", cutOff, log, want)
		}
	}
}

// One call does not fill the log.
func TestSecretReporter_Lines(t *testing.T) {
	log := &logBuffer{}
	r := secretReporter{logger: log.logger(), metrics: ops.NewMetrics("test")}
	var found []memory.SecretReport
	for i := range 15 {
		for range 3 {
			found = append(found, memory.SecretReport{Path: fmt.Sprint("/memories/", i), Rule: "r", Line: int64(i)})
		}
	}
	r.report(t.Context(), "acme", found)
	if got := strings.Count(log.String(), `"msg":"secret"`); got != maxSecretLines {
		t.Errorf("%d lines, want %d", got, maxSecretLines)
	}
	if want := `"msg":"more secrets","namespace":"acme","kinds":5}`; !strings.Contains(log.String(), want) {
		t.Errorf("log:\n%s\nwant %s", log, want)
	}
}

// BenchmarkCreate_Secrets creates files of 2 KB by each policy.
func BenchmarkCreate_Secrets(b *testing.B) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog.\n", 46)
	notes := strings.Repeat("- [x] fixed the token refresh in auth.go; they said the API key rotates monthly\n", 26)
	for _, text := range []struct{ name, text string }{{"prose", prose}, {"notes", notes}} {
		for _, policy := range []struct {
			name   string
			policy memory.SecretsPolicy
		}{{"off", memory.SecretsOff}, {"report", memory.SecretsReport}, {"refuse", memory.SecretsRefuse}} {
			b.Run(text.name+"/"+policy.name, func(b *testing.B) {
				store, err := boltkv.Open(b.Context(), boltkv.Options{Dir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = store.Close() }()
				rules := screener{screen.New(), ops.NewMetrics("")}
				if _, err := rules.Scan(b.Context(), "loads the rules"); err != nil {
					b.Fatal(err)
				}
				m, err := memory.New(store, memory.Options{
					Defaults: memory.Settings{Secrets: &policy.policy, MaxFiles: new(int64(0))}, Screener: rules,
					Report: func(_ context.Context, _ string, found []memory.SecretReport) { b.Errorf("found %v", found) },
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					n++
					cmd := memory.Create{Path: fmt.Sprintf("/memories/%d/%d", n%100, n), FileText: text.text}
					if res, err := m.Do(b.Context(), "bench", cmd, memory.Call{}); err != nil || res.IsError() {
						b.Fatalf("create: %v, %v", res, err)
					}
				}
			})
		}
	}
}

// BenchmarkInsert_Secrets inserts a line in the middle of a file of 1 MB by each policy.
func BenchmarkInsert_Secrets(b *testing.B) {
	line := "- [x] fixed the token refresh in auth.go; they said the API key rotates monthly\n"
	text := strings.Repeat(line, 1000_000/len(line))
	for _, policy := range []struct {
		name   string
		policy memory.SecretsPolicy
	}{{"off", memory.SecretsOff}, {"report", memory.SecretsReport}, {"refuse", memory.SecretsRefuse}} {
		b.Run(policy.name, func(b *testing.B) {
			rules := screener{screen.New(), ops.NewMetrics("")}
			if _, err := rules.Scan(b.Context(), "loads the rules"); err != nil {
				b.Fatal(err)
			}
			m, err := memory.New(memkv.New(), memory.Options{
				Defaults: memory.Settings{
					Secrets: &policy.policy, MaxFileBytes: new(int64(memory.MaxFileBytes)), CreateOnExisting: new(memory.CreateOverwrite),
				},
				Screener: rules,
				Report:   func(_ context.Context, _ string, found []memory.SecretReport) { b.Errorf("found %v", found) },
			})
			if err != nil {
				b.Fatal(err)
			}
			do := func(cmd memory.Command) {
				if res, err := m.Do(b.Context(), "bench", cmd, memory.Call{}); err != nil || res.IsError() {
					b.Fatalf("%T: %v, %v", cmd, res, err)
				}
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%1000 == 0 {
					do(memory.Create{Path: "/memories/a", FileText: text})
				}
				do(memory.Insert{Path: "/memories/a", InsertLine: 6000, InsertText: line})
			}
		})
	}
}

// The counters of secrets that are written are there before the first secret is, so that it is an increase to alerts.
func TestSecrets_CountersStartAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := ops.NewMetrics("")
		newScreener(metrics)
		synctest.Wait()
		families, err := metrics.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "memoryd_secrets_found_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				if m.GetCounter().GetValue() != 0 || m.GetLabel()[0].GetValue() != "written" {
					t.Errorf("got %v, want counters of done=written that are 0", m)
				}
			}
			if got := len(f.GetMetric()); got < 200 {
				t.Errorf("got %d counters, want one of every rule", got)
			}
			return
		}
		t.Error("there are no counters")
	})
}
