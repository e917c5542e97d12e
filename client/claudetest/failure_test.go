package claudetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		failure                 claudetest.Failure
		status                  int
		body                    string
		retryAfter, retryMillis string
	}{
		{"zero", claudetest.Failure{}, 500, `{"type":"error","error":{"type":"api_error","message":"Internal server error"},"request_id":"req_1"}`, "", ""},
		{"overloaded", claudetest.Overloaded(), 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, "", ""},
		{"rate limit", claudetest.RateLimited(1500 * time.Millisecond), 429, `"type":"rate_limit_error"`, "2", "1500"},
		{"soon", claudetest.RateLimited(time.Microsecond), 429, `"type":"rate_limit_error"`, "1", "1"},
		{"invalid", claudetest.Invalid("no"), 400, `{"type":"error","error":{"type":"invalid_request_error","message":"no"},"request_id":"req_1"}`, "", ""},
		{"code", claudetest.ThreadUnsupported("thinking"), 400, `"details":{"error_code":"thread_unsupported_request","unsupported":["thinking"]}`, "", ""},
		{"own", claudetest.Failure{Status: 403, Type: "permission_error", Message: "<no>", ErrorCode: "x"}, 403, `"details":{"error_code":"x"}`, "", ""},
	} {
		for _, how := range []string{"planned", "turn"} {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				script := claudetest.Script()
				if how == "turn" {
					script = claudetest.Script(claudetest.Fail(tc.failure))
				}
				api := claudetest.New(t, script)
				if how == "planned" {
					api.FailNext(1, tc.failure)
				}
				r := post(t, api, "/v1/messages", hello)
				if r.status != tc.status || !strings.Contains(string(r.body), tc.body) {
					t.Errorf("%d %s", r.status, r.body)
				}
				if a, b := r.header.Get("retry-after"), r.header.Get("retry-after-ms"); a != tc.retryAfter || b != tc.retryMillis {
					t.Errorf("retry-after %q, retry-after-ms %q", a, b)
				}
				if got := api.Requests()[0].Status; got != tc.status {
					t.Errorf("recorded %d", got)
				}
			})
		}
	}
}

// The SDK tries again what failed, and the model is asked once.
func TestRetries(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("Done"), claudetest.Say("Done")))
	soon := claudetest.RateLimited(time.Millisecond)
	overloaded := claudetest.Overloaded()
	overloaded.RetryAfter = time.Millisecond
	api.FailNext(1, soon)
	api.FailNext(2, overloaded)
	client := anthropic.NewClient(append(api.ClientOptions(), option.WithMaxRetries(3))...)
	if _, err := client.Beta.Messages.New(t.Context(), params(userText("Hello"))); err != nil {
		t.Fatal(err)
	}
	api.FailNext(1, overloaded)
	if _, err := stream(t, client, params(userText("Hello"))); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, r := range api.Requests() {
		got = append(got, r.Status)
	}
	if want := []int{429, 529, 529, 200, 529, 200}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
}

// The client of ClientOptions does not try again by itself.
func TestNoRetries(t *testing.T) {
	api := claudetest.New(t, claudetest.Script())
	api.FailNext(1, claudetest.Overloaded())
	client := api.Client()
	_, err := client.Beta.Messages.New(t.Context(), params(userText("Hello")))
	var apiErr *anthropic.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != 529 || apiErr.RequestID != "req_1" {
		t.Errorf("got %v", err)
	}
	if n := len(api.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestRateLimit(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("1"), claudetest.Say("2"), claudetest.Say("3")), claudetest.WithRateLimit(2))
	var got []int
	ask := func() {
		r := post(t, api, "/v1/messages", hello)
		got = append(got, r.status)
		if r.status == 429 && r.header.Get("retry-after") == "" {
			t.Error("no retry-after")
		}
	}
	ask()
	if r := post(t, api, "/v1/messages/count_tokens", hello); r.status != 200 { // is no message
		t.Errorf("status %d", r.status)
	}
	ask()
	ask()
	ask()
	api.AllowMore(1)
	ask()
	ask()
	if want := []int{200, 200, 429, 429, 200, 429}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
}

// A Failure that is no error of HTTP is a mistake of the test, however it comes.
func TestFailureThatIsNone(t *testing.T) {
	for _, status := range []int{-1, 1, 99, 101, 200, 204, 304, 399, 600, 1000} {
		for _, how := range []string{"planned", "turn"} {
			t.Run(fmt.Sprintf("%d, %s", status, how), func(t *testing.T) {
				rec := &recorder{}
				failure := claudetest.Failure{Status: status}
				script := claudetest.Script()
				if how == "turn" {
					script = claudetest.Script(claudetest.Fail(failure))
				}
				api := claudetest.New(rec, script)
				if how == "planned" {
					api.FailNext(1, failure)
				}
				want := fmt.Sprintf("a Failure has the status %d, and must have one of 400 to 599", status)
				if r := post(t, api, "/v1/messages", hello); r.status != 500 || r.errorMessage(t) != "claudetest: "+want {
					t.Errorf("%d %s", r.status, r.body)
				}
				if errs := rec.end(); len(errs) != 1 || errs[0] != "claudetest: req_1: "+want {
					t.Errorf("reported %q", errs)
				}
			})
		}
	}
}

func TestFailNextOfLessThanNone(t *testing.T) {
	rec := &recorder{}
	api := claudetest.New(rec, claudetest.Script(claudetest.Say("Fine.")))
	api.FailNext(0, claudetest.Overloaded())
	api.FailNext(-1, claudetest.Overloaded())
	if r := post(t, api, "/v1/messages", hello); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if errs := rec.end(); len(errs) != 1 || errs[0] != "claudetest: FailNext(-1, ...): the number of requests must not be negative" {
		t.Errorf("reported %q", errs)
	}
}
