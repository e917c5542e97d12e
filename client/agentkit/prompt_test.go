package agentkit

import (
	"strings"
	"testing"
)

// The texts of the documentation, byte for byte.
func TestPrompts(t *testing.T) {
	if got, want := PromptUpkeep, `Note: when editing your memory folder, always try to keep its content up-to-date, coherent and organized. You can rename or delete files that are no longer relevant. Do not create new files unless necessary.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := PromptTopic, `Only write down information relevant to <topic> in your memory system.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := PromptOnTopic("the <topic> of tea"), `Only write down information relevant to the <topic> of tea in your memory system.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The API adds the memory protocol by itself.
func TestPrompts_WithoutTheProtocol(t *testing.T) {
	for _, text := range []string{PromptUpkeep, PromptTopic, PromptSessions, emptyText, frameText} {
		for _, protocol := range []string{"ALWAYS VIEW YOUR MEMORY", "MEMORY PROTOCOL", "ASSUME INTERRUPTION"} {
			if strings.Contains(strings.ToUpper(text), protocol) {
				t.Errorf("%q has the memory protocol in it", text)
			}
		}
	}
}

func TestPromptSessions(t *testing.T) {
	for _, want := range []string{
		ProgressPath, FeaturesPath, StartupPath, "one feature at a time", "only after an end-to-end check", "go to the top.",
	} {
		if !strings.Contains(PromptSessions, want) {
			t.Errorf("got %q, want %q in it", PromptSessions, want)
		}
	}
}
