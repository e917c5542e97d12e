package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// response is the response of a command of the memory.
type response interface {
	proto.Message
	GetResult() *memoryv1.ToolResult
}

// printResponse prints what the model would read: on standard output, or on standard error where it is an error.
func (c *cli) printResponse(resp response) error {
	if c.output == outputJSON {
		if err := c.printJSON(resp); err != nil {
			return err
		}
		return resultError(resp)
	}
	return c.printResult(resp)
}

// printResult is printResponse for people.
func (c *cli) printResult(resp response) error {
	result := resp.GetResult()
	var text strings.Builder
	for _, content := range result.GetContent() {
		if image := content.GetImage(); image != nil {
			fmt.Fprintf(&text, "Image: %s, %d bytes. To save it: memoryctl get PATH > FILE\n",
				image.GetMediaType(), len(image.GetData()))
			continue
		}
		text.WriteString(content.GetText() + "\n")
	}
	if result.GetIsError() {
		c.warn(text.String())
		return errErrorResult
	}
	return c.print(text.String())
}

func resultError(resp response) error {
	if resp.GetResult().GetIsError() {
		return errErrorResult
	}
	return nil
}

// printJSON prints one message as one line.
func (c *cli) printJSON(m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson puts blanks in at random
		return fmt.Errorf("encode response: %w", err)
	}
	return c.print(line.String() + "\n")
}

func (c *cli) print(text string) error {
	if _, err := io.WriteString(c.stdout, c.forStream(c.stdout, text)); err != nil {
		return fmt.Errorf("write standard output: %w", err)
	}
	return nil
}

// warn prints on standard error. There is nowhere to tell that it failed.
func (c *cli) warn(text string) {
	_, _ = io.WriteString(c.stderr, c.forStream(c.stderr, text))
}

// complain prints a line on standard error in the name of the program.
func (c *cli) complain(format string, args ...any) {
	c.warn("memoryctl: " + fmt.Sprintf(format, args...) + "\n")
}

// forStream keeps what an agent wrote from steering a terminal: control characters become visible there. Files, pipes
// and programs get every byte.
func (c *cli) forStream(stream any, text string) string {
	if !c.isTerminal(stream) {
		return text
	}
	return visible(text)
}

// visible writes control characters, but not tab and newline, as JSON does.
func visible(text string) string {
	isHidden := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// formatSize writes a number of bytes as the listings of the memory tool do: one decimal, rounded half up.
func formatSize(n int64) string {
	const k = 1024
	unit, name := int64(k), "K"
	switch {
	case n < k:
		return fmt.Sprintf("%dB", n)
	case n >= k*k*k:
		unit, name = k*k*k, "G"
	case n >= k*k:
		unit, name = k*k, "M"
	}
	whole, rest := n/unit, n%unit
	tenths := whole*10 + (rest*10+unit/2)/unit
	return fmt.Sprintf("%d.%d%s", tenths/10, tenths%10, name)
}

// formatTime writes a time in UTC to the second; "-" where there is none.
func formatTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Format(time.RFC3339)
}

// count writes a number and the word for what is counted.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
