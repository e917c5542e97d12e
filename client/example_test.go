package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// message is what the loop needs of a message of the Messages API.
type message struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

// ask stands for a POST to the Messages API with {"type":"memory_20250818","name":"memory"} among the tools.
func ask([]message) (answer message, stopReason string) { return message{}, "end_turn" }

// The loop of an agent that speaks to the Messages API without an SDK.
func ExampleHandler_HandleToolUse() {
	c, err := client.Dial(client.DefaultTarget)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	memory := c.Handler("acme/support/user-42", client.WithSession("run-7"))

	ctx := context.Background()
	greeting := json.RawMessage(`{"type":"text","text":"Hi, do you remember me?"}`)
	conversation := []message{{Role: "user", Content: []json.RawMessage{greeting}}}
	for {
		answer, stopReason := ask(conversation)
		conversation = append(conversation, answer)
		if stopReason != "tool_use" {
			break
		}
		results := message{Role: "user"}
		for _, block := range answer.Content {
			// An error is not one of the memory: the block is no tool_use block. Agents with more tools look at its
			// name first.
			if result, err := memory.HandleToolUse(ctx, block); err == nil {
				results.Content = append(results.Content, result)
			}
		}
		conversation = append(conversation, results)
	}
}

func ExampleHandler_Handle() {
	c, err := client.Dial("unix:///run/memoryd/memoryd.sock")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	input := json.RawMessage(`{"command": "view", "path": "/memories"}`)
	result := c.Handler("acme/support/user-42").Handle(context.Background(), input)
	fmt.Println(result.Text())
}

func ExampleClient_Put() {
	file, err := os.Open("diagram.png")
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Dial("")
	if err != nil {
		log.Fatal(err)
	}
	resp, err := c.Put(context.Background(), &memoryv1.PutHeader{Path: "/memories/diagram.png"}, file)
	switch {
	case client.IsUnreachable(err):
		log.Fatal("memoryd is not running")
	case err != nil:
		log.Fatal(err)
	case resp.GetResult().GetIsError():
		log.Fatal(resp.GetResult().GetContent()[0].GetText())
	}
	fmt.Println("stored at revision", resp.GetRevision())
}

// A client of a service on another machine, which wants to know who calls. The files may be replaced while it is in use.
func ExampleWithTokenFile() {
	c, err := client.Dial("memoryd.internal:7711",
		client.WithTLSFiles(client.TLSFiles{CA: "/etc/memoryd/ca.pem"}),
		client.WithTokenFile("/run/secrets/memoryd-token"),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}
