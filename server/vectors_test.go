package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/kv/boltkv"
	"github.com/seed-7f2870e1/memoryd/server/memory"
	"github.com/seed-7f2870e1/memoryd/server/memory/memtest"
	"github.com/seed-7f2870e1/memoryd/server/servertest"
)

const namespace = "vectors"

// service executes commands through Execute, as clients in other languages do.
type service struct{ client *client.Client }

func (s service) Execute(ctx context.Context, input json.RawMessage) (memtest.Result, error) {
	resp, err := s.client.Execute(ctx, &memoryv1.ExecuteRequest{Namespace: namespace, Input: string(input)})
	if err != nil {
		return memtest.Result{}, err
	}
	return toResult(resp.GetResult().GetIsError(), resp.GetResult().GetContent()), nil
}

func (s service) Put(ctx context.Context, path string, data []byte) error {
	resp, err := s.client.Put(ctx, &memoryv1.PutHeader{Namespace: namespace, Path: path}, bytes.NewReader(data))
	if err != nil {
		return err
	}
	if resp.GetResult().GetIsError() {
		return fmt.Errorf("put %s: %v", path, resp.GetResult())
	}
	return nil
}

// handler executes commands through the tool handler of the client.
type handler struct{ service }

func (h handler) Execute(ctx context.Context, input json.RawMessage) (memtest.Result, error) {
	result := h.client.Handler(namespace).Handle(ctx, input)
	return toResult(result.IsError, result.Content), nil
}

func toResult(isError bool, content []*memoryv1.Content) memtest.Result {
	result := memtest.Result{IsError: isError}
	for _, c := range content {
		result.Text += c.GetText()
		if image := c.GetImage(); image != nil {
			result.Images = append(result.Images, memtest.Image{MediaType: image.GetMediaType(), Data: image.GetData()})
		}
	}
	return result
}

// settings are those that a scenario overrides.
func settings(config memtest.Config) memory.Settings {
	s := memory.Settings{ViewMaxChars: config.ViewMaxChars, MaxFileBytes: config.MaxFileBytes}
	if config.CreateOnExisting != nil {
		s.CreateOnExisting = new(memory.CreateError)
		if *config.CreateOnExisting == "overwrite" {
			s.CreateOnExisting = new(memory.CreateOverwrite)
		}
	}
	return s
}

func TestVectors_Service(t *testing.T) {
	memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
		return service{servertest.New(t, servertest.WithSettings(settings(config))).Client}
	})
}

func TestVectors_Handler(t *testing.T) {
	memtest.Run(t, func(t *testing.T, config memtest.Config) memtest.Executor {
		return handler{service{servertest.New(t, servertest.WithSettings(settings(config))).Client}}
	})
}

// TestParallelEdits edits different lines of one file at the same time, on the store that is kept on disk.
func TestParallelEdits(t *testing.T) {
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

	const edits = 50
	var before, want bytes.Buffer
	for i := range edits {
		fmt.Fprintf(&before, "line %d: old\n", i)
		fmt.Fprintf(&want, "line %d: new\n", i)
	}
	_, err = c.Create(t.Context(), &memoryv1.CreateRequest{
		Namespace: namespace, Path: "/memories/f", FileText: before.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var editing sync.WaitGroup
	for i := range edits {
		editing.Go(func() {
			resp, err := c.StrReplace(t.Context(), &memoryv1.StrReplaceRequest{
				Namespace: namespace, Path: "/memories/f",
				OldStr: fmt.Sprintf("line %d: old", i), NewStr: fmt.Sprintf("line %d: new", i),
			})
			if err != nil || resp.GetResult().GetIsError() {
				t.Errorf("edit %d: got %v, %v", i, resp.GetResult(), err)
			}
		})
	}
	editing.Wait()

	var got bytes.Buffer
	header, err := c.Get(t.Context(), &memoryv1.GetRequest{Namespace: namespace, Path: "/memories/f"}, &got)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() || header.GetRevision() != edits+1 {
		t.Errorf("got revision %d of\n%s\nwant %d of\n%s", header.GetRevision(), &got, edits+1, &want)
	}
}
