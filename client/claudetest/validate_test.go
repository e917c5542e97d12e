package claudetest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-7f2870e1/memoryd/client/claudetest"
)

// requestBody returns a request with messages, and further members.
func requestBody(messages string, more ...string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":1,"tools":[{"name":"look","input_schema":{"type":"object"}},{"type":"memory_20250818","name":"memory"}],"messages":[%s]%s}`,
		messages, strings.Join(append([]string{""}, more...), ","))
}

// Messages of which the tests make conversations.
const (
	uHello  = `{"role":"user","content":"Hello"}`
	aHello  = `{"role":"assistant","content":"Hello"}`
	aCallA  = `{"role":"assistant","content":[{"type":"text","text":"Well"},{"type":"tool_use","id":"toolu_a","name":"look","input":{}}]}`
	aCallB  = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_b","name":"memory","input":{"command":"view"}}]}`
	aCallAB = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_a","name":"look","input":{}},{"type":"tool_use","id":"toolu_b","name":"look","input":{}}]}`
	uA      = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":"a"}]}`
	uB      = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_b","content":[{"type":"text","text":"b"}],"is_error":true}]}`
	uABText = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_b"},{"type":"tool_result","tool_use_id":"toolu_a","content":""},{"type":"text","text":"and?"}]}`
)

func join(messages ...string) string { return strings.Join(messages, ",") }

const edits = `"context_management":{"edits":[%s]}`

// Every rule, with the place and the text that the client is told.
func TestInvalid(t *testing.T) {
	text := func(s string) string { return `{"role":"user","content":[{"type":"text","text":` + s + `}]}` }
	edit := func(s string) string { return requestBody(uHello, fmt.Sprintf(edits, s)) }
	tools := func(s string, more ...string) string {
		return `{"model":"m","max_tokens":1,"messages":[` + uHello + `],"tools":[` + strings.Join(append([]string{s + "]"}, more...), ",") + `}`
	}
	notTool := func(kind string) string {
		return "tools.0: Input tag '" + kind + "' found using 'type' does not match any of the expected tags: 'custom', 'memory_20250818' and those of the other tools that the API defines"
	}
	image := func(source string) string {
		return requestBody(`{"role":"user","content":[{"type":"image"` + source + `}]}`)
	}
	thinks := func(maxTokens, thinking string) string {
		return `{"model":"m","max_tokens":` + maxTokens + `,"messages":[` + uHello + `],"thinking":` + thinking + `}`
	}
	result := func(isError, content string) string {
		return requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","is_error":`+isError+`,"content":[{"type":"text","text":"x"},`+content+`]}]}`))
	}
	system := func(block string) string { return `{"role":"system","content":[` + block + `]}` }
	long := strings.Repeat("x", 129)
	cached := func(s string) string { return `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}` + s }
	for _, tc := range []struct{ name, body, want string }{
		// What is there, and its type.
		{"empty", ``, "The request body is not valid JSON"},
		{"not UTF-8", requestBody("{\"role\":\"user\",\"content\":\"\xff\"}"), "The request body is not valid JSON"},
		{"half a pair", requestBody(`{"role":"user","content":"\\\ud83d\n"}`), "The request body is not valid JSON"},
		{"the other half", requestBody(`{"role":"user","content":"\ude00"}`), "The request body is not valid JSON"},
		{"two first halves", requestBody(`{"role":"user","content":"\ud83d\ud83d\ude00"}`), "The request body is not valid JSON"},
		{"list", `[]`, "Input should be an object"},
		{"null", `null`, "Input should be an object"},
		{"no model", `{"max_tokens":1,"messages":[` + uHello + `]}`, "model: Field required"},
		{"empty model", `{"model":"","max_tokens":1,"messages":[` + uHello + `]}`, "model: String should have at least 1 character"},
		{"model", `{"model":1,"max_tokens":1,"messages":[` + uHello + `]}`, "model: Input should be a valid string"},
		{"no max_tokens", `{"model":"m","messages":[` + uHello + `]}`, "max_tokens: Field required"},
		{"max_tokens 0", `{"model":"m","max_tokens":0,"messages":[` + uHello + `]}`, "max_tokens: Input should be greater than or equal to 1"},
		{"max_tokens", `{"model":"m","max_tokens":1.5,"messages":[` + uHello + `]}`, "max_tokens: Input should be a valid integer"},
		{"case of keys", `{"Model":"m","max_tokens":1,"messages":[` + uHello + `]}`, "model: Field required"},
		{"no messages", `{"model":"m","max_tokens":1}`, "messages: Field required"},
		{"messages", `{"model":"m","max_tokens":1,"messages":{}}`, "messages: Input should be a valid list"},
		{"too many messages", requestBody(strings.Repeat("0,", 100_000) + "0"), "messages: List should have at most 100000 items"},
		{"empty messages", requestBody(""), "messages: at least one message is required"},
		{"stream", requestBody(uHello, `"stream":"yes"`), "stream: Input should be a valid boolean"},
		{"system", requestBody(uHello, `"system":3`), "system: Input should be a valid string or list"},
		{"system block", requestBody(uHello, `"system":[{"type":"text"}]`), "system.0.text: Field required"},
		{"message", requestBody(`"Hello"`), "messages.0: Input should be an object"},

		// Roles and content.
		{"no role", requestBody(`{"content":"x"}`), "messages.0.role: Field required"},
		{"role", requestBody(uHello + `,{"role":"robot","content":"x"}`), "messages.1.role: Input should be 'user', 'assistant' or 'system'"},
		{"first role", requestBody(join(aHello, uHello)), `messages: first message must use the "user" role`},
		{"no content", requestBody(`{"role":"user"}`), "messages.0.content: Field required"},
		{"content", requestBody(`{"role":"user","content":true}`), "messages.0.content: Input should be a valid string or list"},
		{"empty content", requestBody(`{"role":"user","content":[]}`), "messages.0: all messages must have non-empty content except for the optional final assistant message"},
		{"empty string", requestBody(join(uHello, `{"role":"assistant","content":""}`, uHello)), "messages.1: all messages must have non-empty content except for the optional final assistant message"},
		{"empty text", requestBody(text(`""`)), "messages.0.content.0: text content blocks must contain non-whitespace text"},
		{"blank text", requestBody(text(`" \n"`)), "messages.0.content.0: text content blocks must contain non-whitespace text"},
		{"text", requestBody(text(`1`)), "messages.0.content.0.text: Input should be a valid string"},
		{"no type", requestBody(`{"role":"user","content":[{"text":"x"}]}`), "messages.0.content.0.type: Field required"},
		{"block", requestBody(`{"role":"user","content":["x"]}`), "messages.0.content.0: Input should be an object"},

		{"blank string", requestBody(`{"role":"user","content":" \n"}`), "messages.0.content: text content blocks must contain non-whitespace text"},
		{"second text is blank", requestBody(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":" "},{"type":"text","text":" "}]}`), "messages.0.content.1: text content blocks must contain non-whitespace text"},
		{"blank system", requestBody(uHello, `"system":" "`), "system: text content blocks must contain non-whitespace text"},
		{"blank system block", requestBody(uHello, `"system":[{"type":"text","text":" "}]`), "system.0: text content blocks must contain non-whitespace text"},
		{"blank string of the model", requestBody(join(uHello, `{"role":"assistant","content":"\t"}`, uHello)), "messages.1.content: text content blocks must contain non-whitespace text"},
		{"blank at the end", requestBody(join(uHello, `{"role":"assistant","content":"The answer is "}`)), "messages: final assistant content cannot end with trailing whitespace"},
		{"newline at the end", requestBody(join(uHello, `{"role":"assistant","content":[{"type":"text","text":"The answer is\n"}]}`)), "messages: final assistant content cannot end with trailing whitespace"},
		{"image of the model", requestBody(join(uHello, `{"role":"assistant","content":[{"type":"image","source":{"type":"url","url":"x"}}]}`, uHello)), "messages.1.content.0: `image` blocks can only be in `user` messages"},
		{"thinking of the user", requestBody(`{"role":"user","content":[{"type":"thinking","thinking":"x","signature":"x"}]}`), "messages.0.content.0: `thinking` blocks can only be in `assistant` messages"},
		{"redacted thinking of the user", requestBody(`{"role":"user","content":[{"type":"redacted_thinking","data":"x"}]}`), "messages.0.content.0: `redacted_thinking` blocks can only be in `assistant` messages"},
		{"image without source", image(``), "messages.0.content.0.source: Field required"},
		{"image source", image(`,"source":"x"`), "messages.0.content.0.source: Input should be an object"},
		{"image source type", image(`,"source":{"data":"x"}`), "messages.0.content.0.source.type: Field required"},
		{"image data", image(`,"source":{"type":"base64","media_type":"image/png"}`), "messages.0.content.0.source.data: Field required"},
		{"image without media type", image(`,"source":{"type":"base64","data":"x"}`), "messages.0.content.0.source.media_type: Field required"},
		{"image media type", image(`,"source":{"type":"base64","data":"x","media_type":"image/tiff"}`), "messages.0.content.0.source.media_type: Input should be 'image/jpeg' or 'image/png' or 'image/gif' or 'image/webp'"},
		{"image url", image(`,"source":{"type":"url"}`), "messages.0.content.0.source.url: Field required"},
		{"image file", image(`,"source":{"type":"file"}`), "messages.0.content.0.source.file_id: Field required"},

		// Sampling.
		{"hot", requestBody(uHello, `"temperature":1.1`), "temperature: range: 0..1"},
		{"cold", requestBody(uHello, `"temperature":-0.1`), "temperature: range: 0..1"},
		{"temperature", requestBody(uHello, `"temperature":"hot"`), "temperature: Input should be a valid number"},
		{"thinking without type", thinks("2000", `{}`), "thinking.type: Field required"},
		{"no budget", thinks("2000", `{"type":"enabled"}`), "thinking.enabled.budget_tokens: Field required"},
		{"small budget", thinks("2000", `{"type":"enabled","budget_tokens":1023}`), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
		{"large budget", thinks("2000", `{"type":"enabled","budget_tokens":2000}`), "`max_tokens` must be greater than `thinking.budget_tokens`"},

		// Tools.
		{"tool name", tools(`{"input_schema":{"type":"object"}}`), "tools.0.name: Field required"},
		{"bad tool name", tools(`{"name":"a b","input_schema":{"type":"object"}}`), "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"},
		{"long tool name", tools(`{"name":"` + long + `","input_schema":{"type":"object"}}`), "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"},
		{"schema type", tools(`{"name":"a","input_schema":{}}`), "tools.0.input_schema.type: Field required"},
		{"schema of a string", tools(`{"name":"a","input_schema":{"type":"string"}}`), "tools.0.input_schema.type: Input should be 'object'"},
		{"schema that is none", tools(`{"name":"a","input_schema":true}`), "tools.0.input_schema: Input should be an object"},
		{"tool type of another API", tools(`{"type":"function","name":"a","input_schema":{"type":"object"}}`), notTool("function")},
		{"tool type without a date", tools(`{"type":"bash","name":"bash"}`), notTool("bash")},
		{"another memory", tools(`{"type":"memory_20990101","name":"memory"}`), notTool("memory_20990101")},
		{"memory with schema", tools(`{"type":"memory_20250818","name":"memory","input_schema":{"type":"object"}}`), "tools.0.input_schema: Extra inputs are not permitted for a tool that the API defines"},
		{"memory with description", tools(`{"type":"memory_20250818","name":"memory","description":"x"}`), "tools.0.description: Extra inputs are not permitted for a tool that the API defines"},
		{"schema", tools(`{"type":"custom","name":"a"}`), "tools.0.input_schema: Field required"},
		{"two tools", tools(`{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}`), "tools: Tool names must be unique."},
		{"custom memory besides", tools(`{"name":"memory","input_schema":{"type":"object"}},{"type":"memory_20250818","name":"memory"}`), "tools: Tool names must be unique."},
		{"memory name", tools(`{"type":"memory_20250818","name":"notes"}`), "tools.0.name: Input should be 'memory'"},
		{"choice", requestBody(uHello, `"tool_choice":{"type":"some"}`), "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"},
		{"choice name", requestBody(uHello, `"tool_choice":{"type":"tool"}`), "tool_choice.name: Field required"},
		{"any of no tools", tools("", `"tool_choice":{"type":"any"}`), "tool_choice.any: may only be specified while providing tools"},
		{"one of no tools", tools("", `"tool_choice":{"type":"tool","name":"x"}`), "tool_choice: Tool 'x' not found in provided tools"},
		{"chosen tool", requestBody(uHello, `"tool_choice":{"type":"tool","name":"x"}`), "tool_choice: Tool 'x' not found in provided tools"},

		// Calls and results.
		{"call id", requestBody(join(uHello, `{"role":"assistant","content":[{"type":"tool_use","id":"a/b","name":"look","input":{}}]}`)), "messages.1.content.0.id: String should match pattern '^[a-zA-Z0-9_-]+$'"},
		{"no call id", requestBody(join(uHello, `{"role":"assistant","content":[{"type":"tool_use","name":"look","input":{}}]}`)), "messages.1.content.0.id: String should match pattern '^[a-zA-Z0-9_-]+$'"},
		{"call input", requestBody(join(uHello, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":"x"}]}`)), "messages.1.content.0.input: Input should be an object"},
		{"call in a result", result("false", `{"type":"tool_use","id":"b","name":"look","input":{}}`), "messages.2.content.0.content.1: `tool_use` blocks cannot be in a `tool_result` block"},
		{"result in a result", result("false", `{"type":"tool_result","tool_use_id":"toolu_a"}`), "messages.2.content.0.content.1: `tool_result` blocks cannot be in a `tool_result` block"},
		{"thinking in a result", result("false", `{"type":"thinking","thinking":"x","signature":"x"}`), "messages.2.content.0.content.1: `thinking` blocks cannot be in a `tool_result` block"},
		{"error with an image", result("true", `{"type":"image","source":{"type":"url","url":"x"}}`), "messages.2.content.0: all content must be type `text` if `is_error` is true"},
		{"call of user", requestBody(`{"role":"user","content":[{"type":"tool_use","id":"a","name":"look","input":{}}]}`), "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages"},
		{"result of assistant", requestBody(join(uHello, aCallA, `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"toolu_a"}]}`)), "messages.2.content.0: `tool_result` blocks can only be in `user` messages"},
		{"no result at the end", requestBody(join(uHello, aCallA)), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{"no result", requestBody(join(uHello, aCallA, uHello)), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{"one of two results", requestBody(join(uHello, aCallAB, uA)), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_b. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{"late result", requestBody(join(uHello, aCallA, uHello, aHello, uA)), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{"system between", requestBody(join(uHello, aCallA, system(`{"type":"text","text":"x"}`), uA)), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
		{"result without call", requestBody(join(uA)), "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_a. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
		{"result of another call", requestBody(join(uHello, aCallA, uA, aCallB, uA)), "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_a. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
		{"two results", requestBody(join(uHello, aCallA, uA, uA)), "messages.3.content.0: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_a"},
		{"text before result", requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"toolu_a"}]}`)), "messages.2.content.1: `tool_result` blocks must come before all other content of the message"},
		{"text between results", requestBody(join(uHello, aCallAB, uA, uHello, uB)), "messages.4.content.0: `tool_result` blocks must come before all other content of the message"},
		{"result without id", requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result"}]}`)), "messages.2.content.0.tool_use_id: Field required"},
		{"is_error", requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","is_error":1}]}`)), "messages.2.content.0.is_error: Input should be a valid boolean"},
		{"empty text in result", requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":[{"type":"text","text":""}]}]}`)), "messages.2.content.0.content.0: text content blocks must contain non-whitespace text"},
		{"id used again", requestBody(join(uHello, aCallA, uA, aCallA, uA)), "messages.3.content.1: `tool_use` ids must be unique: toolu_a"},
		{"id used twice", requestBody(join(uHello, strings.ReplaceAll(aCallAB, "toolu_b", "toolu_a"), uA)), "messages.1.content.1: `tool_use` ids must be unique: toolu_a"},

		// Cache breakpoints.
		{"five breakpoints", requestBody(`{"role":"user","content":[` + cached(",") + cached(",") + cached(",") + cached(",") + cached("") + `]}`), "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{"breakpoints everywhere", `{"model":"m","max_tokens":1,"cache_control":{"type":"ephemeral"},"system":[` + cached("") + `],"tools":[{"name":"look","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],"messages":[` + join(`{"role":"user","content":[`+cached("")+`]}`, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":[`+cached("")+`]}]}`) + `]}`, "A maximum of 4 blocks with cache_control may be provided. Found 5."},

		// Context edits.
		{"edits", requestBody(uHello, `"context_management":{"edits":{}}`), "context_management.edits: Input should be a valid list"},
		{"edit type", edit(`{"type":"clear_all"}`), "context_management.edits.0: Input tag 'clear_all' found using 'type' does not match any of the expected tags: 'clear_tool_uses_20250919', 'clear_thinking_20251015', 'compact_20260112'"},
		{"trigger", edit(`{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":0}}`), "context_management.edits.0.trigger.value: Input should be greater than or equal to 1"},
		{"trigger type", edit(`{"type":"clear_tool_uses_20250919","trigger":{"type":"turns","value":3}}`), "context_management.edits.0.trigger.type: Input should be 'input_tokens' or 'tool_uses'"},
		{"trigger value", edit(`{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses"}}`), "context_management.edits.0.trigger.value: Field required"},
		{"keep", edit(`{"type":"clear_tool_uses_20250919","keep":{"type":"tool_uses","value":-1}}`), "context_management.edits.0.keep.value: Input should be greater than or equal to 0"},
		{"keep type", edit(`{"type":"clear_tool_uses_20250919","keep":3}`), "context_management.edits.0.keep: Input should be an object"},
		{"clear_at_least", edit(`{"type":"clear_tool_uses_20250919","clear_at_least":{"type":"tool_uses","value":1}}`), "context_management.edits.0.clear_at_least.type: Input should be 'input_tokens'"},
		{"exclude_tools", edit(`{"type":"clear_tool_uses_20250919","exclude_tools":"memory"}`), "context_management.edits.0.exclude_tools: Input should be a valid list of strings"},
		{"clear_tool_inputs", edit(`{"type":"clear_tool_uses_20250919","clear_tool_inputs":1}`), "context_management.edits.0.clear_tool_inputs: Input should be a valid list of strings"},
		{"thinking", edit(`{"type":"clear_thinking_20251015"}`), "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive"},
		{"thinking second", edit(`{"type":"clear_tool_uses_20250919"},{"type":"clear_thinking_20251015"}`), "context_management.edits.1: `clear_thinking_20251015` must be the first of the edits"},
		{"thinking keep", edit(`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":0}}`), "context_management.edits.0.keep.value: Input should be greater than or equal to 1"},
		{"compaction trigger", edit(`{"type":"compact_20260112","trigger":{"type":"input_tokens","value":49999}}`), "context_management.edits.0.trigger.value: Input should be greater than or equal to 50000"},

		// Changes of tools.
		{"change without beta of user", requestBody(`{"role":"user","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"look"}}]}`), "messages.0.content.0: `tool_removal` blocks can only be in `system` messages"},
		{"removal of what is not there", requestBody(join(uHello, system(`{"type":"tool_removal","tool":{"type":"tool_reference","name":"x"}}`))), "messages.1.content.0.tool: there is no tool 'x' to remove"},
		{"change of nothing", requestBody(join(uHello, system(`{"type":"tool_addition"}`))), "messages.1.content.0.tool: Field required"},
		{"added tool", requestBody(join(uHello, system(`{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"x"}}}`))), "messages.1.content.0.tool.definition.input_schema: Field required"},

		// Compaction.
		{"compaction type", requestBody(uHello, `"compaction":{"type":"shrink"}`), "compaction.type: Input should be 'summarize'"},
		{"compaction and edits", requestBody(uHello, `"compaction":{"type":"summarize"}`, fmt.Sprintf(edits, "")), "compaction: Cannot be combined with `context_management`"},
		{"compaction and stop sequences", requestBody(uHello, `"compaction":{"type":"summarize"}`, `"stop_sequences":["x"]`), "compaction: Cannot be combined with `stop_sequences` or an output format"},
		{"compaction and format", requestBody(uHello, `"compaction":{"type":"summarize"}`, `"output_config":{"format":{}}`), "compaction: Cannot be combined with `stop_sequences` or an output format"},
		{"compaction and choice", requestBody(uHello, `"compaction":{"type":"summarize"}`, `"tool_choice":{"type":"any"}`), "compaction: Cannot be combined with a `tool_choice` that forces tool use"},
		{"summary of user", requestBody(`{"role":"user","content":[{"type":"compaction","content":"x"}]}`), "messages.0.content.0: `compaction` blocks can only be in `assistant` messages"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := claudetest.New(t, claudetest.Script())
			r := post(t, api, "/v1/messages", tc.body)
			if got := r.errorMessage(t); r.status != 400 || got != tc.want {
				t.Errorf("%d %s\nwant %s", r.status, got, tc.want)
			}
			if !strings.Contains(string(r.body), `"type":"invalid_request_error"`) {
				t.Errorf("got %s", r.body)
			}
		})
	}
}

// What looks odd and is valid.
func TestValid(t *testing.T) {
	api := claudetest.New(t, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
		return claudetest.Say("Fine."), nil
	}))
	fallback := `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_x","name":"look","input":{}},{"type":"fallback","from":{"model":"m"},"to":{"model":"n"}},{"type":"tool_use","id":"toolu_a","name":"look","input":{}}]}`
	whole := func(maxTokens, more string) string {
		return `{"model":"m","max_tokens":` + maxTokens + `,"messages":[` + uHello + `]` + more + `}`
	}
	for name, body := range map[string]string{
		"whole float":            whole("5.0", ""),
		"exponent":               whole("5e1", ""),
		"escapes":                requestBody(`{"role":"user","content":"\ud83d\ude00 \\ud83d \u00fc\\"}`),
		"call of a tool gone":    requestBody(join(uHello, `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_a","name":"gone","input":{}}]}`, uA)),
		"call and no tools":      `{"model":"m","max_tokens":1,"messages":[` + join(uHello, aCallA, uA) + `]}`,
		"auto of no tools":       whole("1", `,"tool_choice":{"type":"auto"}`),
		"none of no tools":       whole("1", `,"tool_choice":{"type":"none"}`),
		"any of an MCP server":   whole("1", `,"tool_choice":{"type":"any"},"mcp_servers":[{"type":"url","url":"x","name":"x"}]`),
		"choice of an addition":  requestBody(join(uHello, `{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"listen","input_schema":{"type":"object"}}}}]}`), `"tool_choice":{"type":"tool","name":"listen"}`),
		"budget":                 whole("1025", `,"thinking":{"type":"enabled","budget_tokens":1024}`),
		"thinking of any kind":   whole("1", `,"thinking":{"type":"between_tools"}`),
		"temperatures":           whole("1", `,"temperature":1.0`),
		"no temperature":         whole("1", `,"temperature":0`),
		"built-in tools":         whole("1", `,"tools":[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"},{"type":"tool_search_tool_regex","name":"tool_search_tool_regex"},{"type":"future_tool_20270101","name":"future"},{"type":"browser_toolset_20260801"}]`),
		"images":                 requestBody(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"image","source":{"type":"url","url":"x"}},{"type":"image","source":{"type":"file","file_id":"x"}}]}`),
		"image in a result":      requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":[{"type":"image","source":{"type":"url","url":"x"}},{"type":"search_result","source":"x","title":"x","content":[]}]}]}`)),
		"blank result":           requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":" "}]}`)),
		"blank text in a result": requestBody(join(uHello, aCallA, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":[{"type":"text","text":" "},{"type":"text","text":"\n"}],"is_error":true}]}`)),
		"blank before the end":   requestBody(join(uHello, `{"role":"assistant","content":"Hello \n"}`, uHello)),
		"blank, to be summed up": requestBody(join(uHello, `{"role":"assistant","content":"Hello "}`), `"compaction":{"type":"summarize"}`),
		"string content":         requestBody(uHello),
		"unknown members":        requestBody(uHello, `"temperature":0.5`, `"metadata":{"user_id":"x"}`, `"future":[1]`),
		"nulls":                  requestBody(uHello, `"system":null`, `"stream":null`, `"thread":null`, `"context_management":null`, `"tool_choice":null`),
		"same role twice":        requestBody(join(uHello, uHello, aHello, aHello, uHello)),
		"assistant at the end":   requestBody(join(uHello, aHello)),
		"empty assistant":        requestBody(join(uHello, `{"role":"assistant","content":[]}`)),
		"results":                requestBody(join(uHello, aCallA, uA)),
		"results in two":         requestBody(join(uHello, aCallAB, uB, uA)),
		"results, then text":     requestBody(join(uHello, aCallAB, uABText)),
		"calls in two":           requestBody(join(uHello, aCallA, aCallB, uB, uA)),
		"fallback":               requestBody(join(uHello, fallback, uA)),
		"four breakpoints":       requestBody(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) + `{"type":"text","text":"x","cache_control":null}]}`),
		"breakpoint in an input": requestBody(join(uHello, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{"cache_control":[1,2,3,4,5]}}]}`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`)),
		"server tools":           requestBody(uHello+`,{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}]}`, `"tool_choice":{"type":"none"}`),
		"mcp toolset":            `{"model":"m","max_tokens":1,"tools":[{"type":"mcp_toolset","mcp_server_name":"a"},{"type":"mcp_toolset","mcp_server_name":"b"}],"messages":[` + uHello + `]}`,
		"tool that was added":    requestBody(join(uHello, `{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"listen","input_schema":{"type":"object"}}}}]}`, `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_a","name":"listen","input":{}}]}`, uA)),
		"tool that was removed":  requestBody(join(uHello, aCallA, uA, `{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"look"}}]}`, aHello, uHello)),
		"failed compaction":      requestBody(join(uHello, `{"role":"assistant","content":[{"type":"compaction","content":null},{"type":"text","text":"x"}]}`, uHello)),
		"edits":                  requestBody(uHello, fmt.Sprintf(edits, `{"type":"clear_thinking_20251015","keep":{"type":"all"}},{"type":"clear_tool_uses_20250919","trigger":null,"keep":{"type":"tool_uses","value":0},"clear_tool_inputs":false},{"type":"compact_20260112"}`), `"thinking":{"type":"adaptive"}`),
	} {
		t.Run(name, func(t *testing.T) {
			if r := post(t, api, "/v1/messages", body); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
}

// What needs a beta header, and which.
func TestBetaIsNeeded(t *testing.T) {
	addition := `{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"x","input_schema":{"type":"object"}}}}]}`
	for _, tc := range []struct{ name, body, place, betas string }{
		{"edits", requestBody(uHello, fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919"}`)), "context_management", "context-management-2025-06-27"},
		{"no edits", requestBody(uHello, fmt.Sprintf(edits, ``)), "context_management", "context-management-2025-06-27"},
		{"compact edit", requestBody(uHello, fmt.Sprintf(edits, `{"type":"compact_20260112"}`)), "context_management", "compact-2026-01-12"},
		{"both edits", requestBody(uHello, fmt.Sprintf(edits, `{"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}`)), "context_management", "compact-2026-01-12, context-management-2025-06-27"},
		{"compaction", requestBody(uHello, `"compaction":{"type":"summarize"}`), "compaction", "compact-2026-09-04"},
		{"thread", requestBody(uHello, `"thread":{"type":"create"}`), "thread", "message-threads-2026-08-12"},
		{"tools", requestBody(join(uHello, addition)), "messages.1.content.0.tool", "inline-tools-2026-09-15"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api := claudetest.New(t, claudetest.ModelFunc(func(context.Context, *claudetest.Request) (claudetest.Turn, error) {
				return claudetest.Say("Fine."), nil
			}))
			var given []string
			for _, beta := range strings.Split(tc.betas, ", ") {
				r := post(t, api, "/v1/messages", tc.body, withHeader("anthropic-beta", strings.Join(given, ",")))
				want := tc.place + ": Extra inputs are not permitted without the beta header " + beta
				if got := r.errorMessage(t); r.status != 400 || got != want {
					t.Errorf("%d %s, want %s", r.status, got, want)
				}
				given = append(given, beta)
			}
			ways := []func(*http.Request){
				withHeader("anthropic-beta", tc.betas),
				withHeader("anthropic-beta", "other-2026-01-01,"+tc.betas),
				func(r *http.Request) { r.Header["Anthropic-Beta"] = given },
			}
			for i, way := range ways {
				if r := post(t, api, "/v1/messages", tc.body, way); r.status != 200 {
					t.Errorf("way %d: %d %s", i, r.status, r.body)
				}
			}
		})
	}
}

// What the beta header of interleaved thinking allows, and what is not asked of a request that is only counted.
func TestThinkingBudgetMayExceed(t *testing.T) {
	api := claudetest.New(t, claudetest.Script(claudetest.Say("Fine.")))
	body := `{"model":"m","max_tokens":1024,"messages":[` + join(uHello, `{"role":"assistant","content":"Hello "}`) + `],"thinking":{"type":"enabled","budget_tokens":5000}}`
	if r := post(t, api, "/v1/messages/count_tokens", body); r.status != 200 {
		t.Errorf("counting: %d %s", r.status, r.body)
	}
	body = strings.Replace(body, "Hello \"", "Hello\"", 1)
	if r := post(t, api, "/v1/messages", body, withHeader("anthropic-beta", "interleaved-thinking-2025-05-14")); r.status != 200 {
		t.Errorf("interleaved thinking: %d %s", r.status, r.body)
	}
}
