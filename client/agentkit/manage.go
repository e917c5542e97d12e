package agentkit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"
)

// The anthropic-beta headers of the strategies.
const (
	// BetaContextManagement is needed for ClearToolUses.
	BetaContextManagement = anthropic.AnthropicBetaContextManagement2025_06_27
	// BetaCompact is needed for Compact.
	BetaCompact = anthropic.AnthropicBetaCompact2026_01_12
	// BetaCompactOnDemand is needed for CompactOnDemand.
	BetaCompactOnDemand = anthropic.AnthropicBetaCompact2026_09_04
)

// MinCompactTrigger is the least trigger of Compact in input tokens. It is that of the API
// (https://platform.claude.com/docs/en/build-with-claude/compaction).
const MinCompactTrigger = 50_000

// memoryTool is the name of the memory tool.
const memoryTool = "memory"

// Strategy is a way to keep a conversation small: ClearToolUses, Compact or CompactOnDemand.
type Strategy interface {
	// addTo adds the edit of the strategy, if it is one.
	addTo(*anthropic.BetaContextManagementConfigParam) error
	// beta is the header that it needs.
	beta() anthropic.AnthropicBeta
}

// ClearToolUses replaces the results of old tool uses by a placeholder, on the side of the API, once the prompt has
// grown to a trigger: the edit clear_tool_uses_20250919
// (https://platform.claude.com/docs/en/build-with-claude/context-editing). The conversation that the client has stays
// as it is. What is left out takes the default of the API.
type ClearToolUses struct {
	// AtInputTokens is the trigger: how many input tokens the prompt has, at least 1. The default is 100,000; begin with
	// less, such as 30,000, and watch.
	AtInputTokens param.Opt[int64]
	// AtToolUses is another trigger, in place of AtInputTokens: how many tool uses there are, at least 1.
	AtToolUses param.Opt[int64]
	// Keep is how many of the latest tool uses stay. The default is 3; 0 is possible.
	Keep param.Opt[int64]
	// ClearAtLeast is how many input tokens must be gained, or else nothing is cleared: whether it is worth the cached
	// prefix of the prompt. The default is any.
	ClearAtLeast param.Opt[int64]
	// ExcludeTools are the tools whose uses are never cleared, besides the memory tool.
	ExcludeTools []string
	// ClearMemory clears the uses of the memory tool like others.
	ClearMemory bool
	// ClearInputs clears the inputs of the tool uses too, not only the results.
	ClearInputs bool
	// ClearInputsOf does so for some tools, in place of ClearInputs.
	ClearInputsOf []string
}

func (c ClearToolUses) beta() anthropic.AnthropicBeta { return BetaContextManagement }

func (c ClearToolUses) addTo(config *anthropic.BetaContextManagementConfigParam) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("clear tool uses: %w", err)
	}
	e := &anthropic.BetaClearToolUses20250919EditParam{ExcludeTools: slices.Clone(c.ExcludeTools)}
	if !c.ClearMemory && !slices.Contains(e.ExcludeTools, memoryTool) {
		e.ExcludeTools = append(e.ExcludeTools, memoryTool)
	}
	if c.AtInputTokens.Valid() {
		e.Trigger.OfInputTokens = &anthropic.BetaInputTokensTriggerParam{Value: c.AtInputTokens.Value}
	}
	if c.AtToolUses.Valid() {
		e.Trigger.OfToolUses = &anthropic.BetaToolUsesTriggerParam{Value: c.AtToolUses.Value}
	}
	if c.Keep.Valid() {
		e.Keep = anthropic.BetaToolUsesKeepParam{Value: c.Keep.Value, Type: "tool_uses"}
	}
	if c.ClearAtLeast.Valid() {
		e.ClearAtLeast = anthropic.BetaInputTokensClearAtLeastParam{Value: c.ClearAtLeast.Value, Type: "input_tokens"}
	}
	switch {
	case c.ClearInputs:
		e.ClearToolInputs.OfBool = anthropic.Bool(true)
	case len(c.ClearInputsOf) > 0:
		e.ClearToolInputs.OfStringArray = slices.Clone(c.ClearInputsOf)
	}
	setEdit(config, anthropic.BetaContextManagementConfigEditUnionParam{OfClearToolUses20250919: e})
	return nil
}

func (c ClearToolUses) check() error {
	switch {
	case c.AtInputTokens.Valid() && c.AtToolUses.Valid():
		return errors.New("AtInputTokens and AtToolUses are two triggers, and there can be one")
	case c.ClearInputs && len(c.ClearInputsOf) > 0:
		return errors.New("ClearInputs is for all tools and ClearInputsOf for some, and there can be one of them")
	case slices.Contains(c.ExcludeTools, ""):
		return errors.New("ExcludeTools has an empty name")
	case c.ClearMemory && slices.Contains(c.ExcludeTools, memoryTool):
		return errors.New("ClearMemory clears what ExcludeTools excludes; leave one of them out")
	case slices.Contains(c.ClearInputsOf, ""):
		return errors.New("ClearInputsOf has an empty name")
	}
	return errors.Join(
		atLeast("AtInputTokens", c.AtInputTokens, 1),
		atLeast("AtToolUses", c.AtToolUses, 1),
		atLeast("Keep", c.Keep, 0),
		atLeast("ClearAtLeast", c.ClearAtLeast, 0),
	)
}

// Compact summarizes the conversation within an ordinary request, once the prompt has grown to a trigger: the edit
// compact_20260112 (https://platform.claude.com/docs/en/build-with-claude/compaction). The response begins with a
// compaction block then, which has to be sent back with the rest of it. What is left out takes the default of the API.
type Compact struct {
	// AtInputTokens is the trigger: how many input tokens the prompt has, at least MinCompactTrigger. The default is
	// 150,000.
	AtInputTokens param.Opt[int64]
	// Instructions is the prompt that asks for the summary. It replaces that of the API as a whole, so it must say
	// what to keep, and should say that no tool is to be called.
	Instructions string
	// PauseAfter ends the turn after the summary, with the stop reason compaction, instead of going on at once.
	PauseAfter bool
}

func (c Compact) beta() anthropic.AnthropicBeta { return BetaCompact }

func (c Compact) addTo(config *anthropic.BetaContextManagementConfigParam) error {
	if err := atLeast("AtInputTokens", c.AtInputTokens, MinCompactTrigger); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	e := &anthropic.BetaCompact20260112EditParam{Instructions: optional(c.Instructions)}
	if c.AtInputTokens.Valid() {
		e.Trigger = anthropic.BetaInputTokensTriggerParam{Value: c.AtInputTokens.Value, Type: "input_tokens"}
	}
	if c.PauseAfter {
		e.PauseAfterCompaction = anthropic.Bool(true)
	}
	setEdit(config, anthropic.BetaContextManagementConfigEditUnionParam{OfCompact20260112: e})
	return nil
}

// CompactOnDemand summarizes the conversation when the program says so, in a request of its own. The SDK's tool runner
// does it:
//
//	for message, err := range runner.All(ctx) {
//		...
//		if message.StopReason == anthropic.BetaStopReasonToolUse && compact.Due(message.Usage) {
//			runner.CompactBeforeNextTurn(compact.Config())
//		}
//	}
//
// After the last turn the runner would compact too, and end with the summary in the place of the model's answer.
// It cannot be used together with Compact. See
// https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand.
type CompactOnDemand struct {
	// AtInputTokens is how many input tokens a prompt has for Due to be true. 0 is never.
	AtInputTokens int64
	// Instructions is the prompt that asks for the summary; empty is that of the API.
	Instructions string
}

func (c CompactOnDemand) beta() anthropic.AnthropicBeta { return BetaCompactOnDemand }

func (c CompactOnDemand) addTo(*anthropic.BetaContextManagementConfigParam) error {
	if err := atLeast("AtInputTokens", anthropic.Int(c.AtInputTokens), 0); err != nil {
		return fmt.Errorf("compact on demand: %w", err)
	}
	return nil
}

// Due tells whether a prompt was large enough. It counts what was read from the cache and written to it, which
// BetaUsage.InputTokens leaves out.
func (c CompactOnDemand) Due(usage anthropic.BetaUsage) bool {
	tokens := usage.InputTokens + usage.CacheReadInputTokens + usage.CacheCreationInputTokens
	return c.AtInputTokens > 0 && tokens >= c.AtInputTokens
}

// Config returns what CompactBeforeNextTurn takes.
func (c CompactOnDemand) Config() anthropic.BetaCompactionConfigUnionParam {
	return anthropic.BetaCompactionConfigUnionParam{
		OfSummarize: &anthropic.BetaSummarizeCompactionParam{Instructions: optional(c.Instructions)},
	}
}

// ContextManagement returns the edits of strategies in their order, in which the API makes them, except that
// ClearToolUses comes before Compact. An error says which number the API would not take, or which strategies cannot be
// together, as two of one type.
func ContextManagement(strategies ...Strategy) (anthropic.BetaContextManagementConfigParam, error) {
	params, err := manage(anthropic.BetaMessageNewParams{}, strategies)
	return params.ContextManagement, err
}

// ManageContext returns params with the edits of strategies, as ContextManagement makes them, and the betas that they
// need. An edit of the same type that is there already is replaced, in its place; the others stay. The slices of params
// are not written to.
func ManageContext(
	params anthropic.BetaMessageNewParams, strategies ...Strategy,
) (anthropic.BetaMessageNewParams, error) {
	params, err := manage(params, strategies)
	if err != nil {
		return anthropic.BetaMessageNewParams{}, fmt.Errorf("manage context: %w", err)
	}
	return params, nil
}

func manage(params anthropic.BetaMessageNewParams, strategies []Strategy) (anthropic.BetaMessageNewParams, error) {
	if err := checkTypes(strategies); err != nil {
		return anthropic.BetaMessageNewParams{}, err
	}
	params.ContextManagement.Edits = slices.Clone(params.ContextManagement.Edits)
	params.Betas = slices.Clone(params.Betas)
	for _, s := range strategies {
		if err := s.addTo(&params.ContextManagement); err != nil {
			return anthropic.BetaMessageNewParams{}, err
		}
		if !slices.Contains(params.Betas, s.beta()) {
			params.Betas = append(params.Betas, s.beta())
		}
	}
	if err := checkCompaction(params, strategies); err != nil {
		return anthropic.BetaMessageNewParams{}, err
	}
	return params, nil
}

// checkTypes refuses strategies that are nil, and two of one type.
func checkTypes(strategies []Strategy) error {
	for i, s := range strategies {
		if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("strategy %d is nil", i+1)
		}
		if slices.ContainsFunc(strategies[:i], func(other Strategy) bool { return other.beta() == s.beta() }) {
			return fmt.Errorf("strategy %d is of the same type as one before it, %T; leave one of them out", i+1, s)
		}
	}
	return nil
}

// checkCompaction refuses what the API and its tool runner do not take together.
func checkCompaction(params anthropic.BetaMessageNewParams, strategies []Strategy) error {
	onDemand := func(s Strategy) bool { return s.beta() == BetaCompactOnDemand }
	edits := params.ContextManagement.Edits
	switch {
	case slices.ContainsFunc(strategies, onDemand) && slices.ContainsFunc(edits, compacts):
		return errors.New("Compact and CompactOnDemand cannot be used together; leave one of them out")
	case len(edits) > 0 && !param.IsOmitted(params.Compaction):
		return errors.New("a request with the parameter compaction cannot have context edits; leave one of them out")
	default:
		return nil
	}
}

func clears(e anthropic.BetaContextManagementConfigEditUnionParam) bool {
	return e.OfClearToolUses20250919 != nil
}

func compacts(e anthropic.BetaContextManagementConfigEditUnionParam) bool {
	return e.OfCompact20260112 != nil
}

// setEdit puts an edit in the place of one of the same type, or at the end; but clearing before compaction.
func setEdit(
	config *anthropic.BetaContextManagementConfigParam, e anthropic.BetaContextManagementConfigEditUnionParam,
) {
	edits := config.Edits
	place := slices.IndexFunc(edits, func(old anthropic.BetaContextManagementConfigEditUnionParam) bool {
		kind := old.GetType()
		return kind != nil && *kind == *e.GetType()
	})
	if place >= 0 {
		edits = slices.Delete(edits, place, place+1)
	} else {
		place = len(edits)
	}
	if compaction := slices.IndexFunc(edits, compacts); clears(e) && compaction >= 0 {
		place = min(place, compaction)
	}
	if compacts(e) {
		place = max(place, slices.IndexFunc(edits, clears)+1)
	}
	config.Edits = slices.Insert(edits, place, e)
}

// atLeast refuses a number below the least.
func atLeast(name string, n param.Opt[int64], least int64) error {
	if n.Valid() && n.Value < least {
		return fmt.Errorf("%s must be at least %d, got %d", name, least, n.Value)
	}
	return nil
}

func optional(text string) param.Opt[string] {
	if text == "" {
		return param.Opt[string]{}
	}
	return anthropic.String(text)
}
