package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

// fileCommand is what a client asks of a file, and fileAnswer what it got.
type (
	fileCommand struct {
		path, command string
		old, text     string
	}
	fileAnswer struct {
		reason memoryv1.Reason
		text   string // of view
	}
)

// absent is the state of a file that does not exist; any other state is its text.
const absent = "\x00"

// fileModel is a file on which commands take effect one after the other.
var fileModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		files := map[string][]porcupine.Operation{}
		for _, op := range history {
			path := op.Input.(fileCommand).path
			files[path] = append(files[path], op)
		}
		var all [][]porcupine.Operation
		for _, ops := range files {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return absent },
	Step: func(state, input, output any) (bool, any) {
		got := output.(fileAnswer)
		want, next := fileStep(state.(string), input.(fileCommand))
		return got == want, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v gave %+v", input, output) },
}

// fileStep executes a command on the state of a file.
func fileStep(state string, c fileCommand) (fileAnswer, string) {
	exists := state != absent
	switch c.command {
	case "view":
		if !exists {
			return fileAnswer{reason: memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND}, state
		}
		return fileAnswer{text: state}, state
	case "create":
		if exists {
			return fileAnswer{reason: memoryv1.Reason_REASON_CREATE_PATH_EXISTS}, state
		}
		return fileAnswer{}, c.text
	case "insert":
		if !exists {
			return fileAnswer{reason: memoryv1.Reason_REASON_INSERT_PATH_NOT_FOUND}, state
		}
		return fileAnswer{}, c.text + "\n" + state
	case "str_replace":
		switch n := strings.Count(state, c.old); {
		case !exists:
			return fileAnswer{reason: memoryv1.Reason_REASON_STR_REPLACE_PATH_NOT_FOUND}, state
		case n == 0:
			return fileAnswer{reason: memoryv1.Reason_REASON_STR_REPLACE_NO_MATCH}, state
		case n > 1:
			return fileAnswer{reason: memoryv1.Reason_REASON_STR_REPLACE_MULTIPLE_MATCHES}, state
		}
		return fileAnswer{}, strings.Replace(state, c.old, c.text, 1)
	}
	if !exists {
		return fileAnswer{reason: memoryv1.Reason_REASON_DELETE_PATH_NOT_FOUND}, state
	}
	return fileAnswer{}, absent
}

// TestLinearizable lets clients change a few files at the same time: there must be an order of what they did that
// explains every answer, and in which nothing is before what had ended when it began.
func TestLinearizable(t *testing.T) {
	const clients, commands = 6, 150
	store, err := boltkv.Open(t.Context(), boltkv.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := servertest.New(t, servertest.WithStore(store)).Client
	execute := func(cmd fileCommand) (answer fileAnswer, err error) {
		result := (*memoryv1.ToolResult)(nil)
		switch cmd.command {
		case "view":
			var resp *memoryv1.ViewResponse
			resp, err = c.View(t.Context(), &memoryv1.ViewRequest{Path: cmd.path})
			result = resp.GetResult()
		case "create":
			var resp *memoryv1.CreateResponse
			resp, err = c.Create(t.Context(), &memoryv1.CreateRequest{Path: cmd.path, FileText: cmd.text})
			result = resp.GetResult()
		case "insert":
			var resp *memoryv1.InsertResponse
			resp, err = c.Insert(t.Context(), &memoryv1.InsertRequest{Path: cmd.path, InsertText: cmd.text})
			result = resp.GetResult()
		case "str_replace":
			var resp *memoryv1.StrReplaceResponse
			resp, err = c.StrReplace(t.Context(), &memoryv1.StrReplaceRequest{
				Path: cmd.path, OldStr: cmd.old, NewStr: cmd.text,
			})
			result = resp.GetResult()
		case "delete":
			var resp *memoryv1.DeleteResponse
			resp, err = c.Delete(t.Context(), &memoryv1.DeleteRequest{Path: cmd.path})
			result = resp.GetResult()
		}
		answer.reason = result.GetReason()
		if cmd.command == "view" && !result.GetIsError() && err == nil {
			answer.text = unnumbered(result.GetContent()[0].GetText())
		}
		return answer, err
	}

	began := time.Now()
	histories := make([][]porcupine.Operation, clients)
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			letter := func() string { return string(rune('a' + random.IntN(4))) }
			for range commands {
				cmd := fileCommand{
					path:    fmt.Sprintf("/memories/%d", random.IntN(3)),
					command: []string{"view", "view", "create", "insert", "str_replace", "str_replace", "delete"}[random.IntN(7)],
				}
				switch cmd.command {
				case "create", "insert":
					cmd.text = letter()
				case "str_replace":
					cmd.old, cmd.text = letter(), letter()
				}
				called := time.Since(began)
				answer, err := execute(cmd)
				if err != nil {
					t.Errorf("%+v: %v", cmd, err)
					return
				}
				histories[client] = append(histories[client], porcupine.Operation{
					ClientId: client, Input: cmd, Call: int64(called), Output: answer, Return: int64(time.Since(began)),
				})
			}
		})
	}
	running.Wait()
	var history []porcupine.Operation
	succeeded := 0
	for _, ops := range histories {
		for _, op := range ops {
			if op.Output.(fileAnswer).reason == 0 {
				succeeded++
			}
		}
		history = append(history, ops...)
	}
	if succeeded < len(history)/4 {
		t.Errorf("only %d of %d commands succeeded, too few to tell anything", succeeded, len(history))
	}
	result, info := porcupine.CheckOperationsVerbose(fileModel, history, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("the history of %d commands is not linearizable (%s): %v", len(history), result, info)
	}
}

// unnumbered is the text of a file that a view shows.
func unnumbered(view string) string {
	lines := strings.Split(view, "\n")[1:]
	for i, line := range lines {
		_, lines[i], _ = strings.Cut(line, "\t")
	}
	return strings.Join(lines, "\n")
}
