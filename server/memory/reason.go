package memory

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Reason says why a command failed: one value for every error text of the memory tool. The numbers are those of the
// enum Reason of memoryd.v1; they are never reused.
type Reason int32

// The reasons that the commands give. Others of memoryd.v1 are given by the service and by clients.
const (
	ReasonNone                      Reason = 0
	ReasonViewPathNotFound          Reason = 1
	ReasonViewTooManyLines          Reason = 2
	ReasonViewRangeInvalid          Reason = 3
	ReasonCreatePathExists          Reason = 4
	ReasonStrReplacePathNotFound    Reason = 5
	ReasonStrReplaceNoMatch         Reason = 6
	ReasonStrReplaceMultipleMatches Reason = 7
	ReasonStrReplaceEmptyOldStr     Reason = 8
	ReasonInsertPathNotFound        Reason = 9
	ReasonInsertLineInvalid         Reason = 10
	ReasonDeletePathNotFound        Reason = 11
	ReasonDeleteRoot                Reason = 12
	ReasonRenamePathNotFound        Reason = 13
	ReasonRenameDestinationExists   Reason = 14
	ReasonRenameRoot                Reason = 15
	ReasonRenameIntoItself          Reason = 16
	ReasonParentIsFile              Reason = 17
	ReasonPathOutsideMemories       Reason = 18
	ReasonPathTraversal             Reason = 19
	ReasonPathInvalidCharacters     Reason = 20
	ReasonPathTooLong               Reason = 21
	ReasonNotUTF8                   Reason = 22
	ReasonFileTooLarge              Reason = 23
	ReasonUnknownCommand            Reason = 24
	ReasonMissingParameter          Reason = 25
	ReasonInvalidParameterType      Reason = 26
	ReasonInputNotObject            Reason = 27
	ReasonTooManyCalls              Reason = 33
	ReasonFileQuota                 Reason = 34
	ReasonSizeQuota                 Reason = 35
	ReasonDirectoryTooLarge         Reason = 36
	ReasonSecretRefused             Reason = 37
	ReasonPreconditionFailed        Reason = 38
	ReasonBatchTooLarge             Reason = 40
)

// Reasons returns the reasons that the commands give, without ReasonNone.
func Reasons() []Reason {
	reasons := make([]Reason, 0, ReasonInputNotObject+1)
	for r := ReasonViewPathNotFound; r <= ReasonInputNotObject; r++ {
		reasons = append(reasons, r)
	}
	return append(reasons, ReasonTooManyCalls, ReasonFileQuota, ReasonSizeQuota, ReasonDirectoryTooLarge,
		ReasonSecretRefused, ReasonPreconditionFailed, ReasonBatchTooLarge)
}

// failure is a command that fails because of what the model asked for. Returned from a transaction it leaves nothing
// behind; Do turns it into a Result.
type failure struct {
	reason Reason
	text   string
	// namesLargest says that the text is to be completed with the largest files.
	namesLargest bool
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// result is what the model reads of a failure.
func (f *failure) result() Result {
	return Result{Reason: f.reason, Content: []Block{{Text: f.text}}}
}

func fail(reason Reason, format string, args ...any) *failure {
	return &failure{reason: reason, text: fmt.Sprintf(format, args...)}
}

// The texts that more than one command gives, from the contract of the memory tool.

func failParentIsFile(path string) *failure {
	return fail(ReasonParentIsFile, "Error: A parent of %s is a file, not a directory", path)
}

func failPathTooLong() *failure {
	return fail(ReasonPathTooLong, "Error: Path is too long: a name may have at most %d bytes and a whole path at most %d",
		MaxNameBytes, MaxPathBytes)
}

func failNotUTF8(path string) *failure {
	return fail(ReasonNotUTF8, "Error: The file %s is not valid UTF-8 text", path)
}

func failFileTooLarge(path string, limit int64) *failure {
	return fail(ReasonFileTooLarge,
		"Error: File %s exceeds the maximum size of %s. Shorten the content or split it into several files.",
		path, formatSize(limit))
}

func failDirectoryTooLarge(path string, entries, limit int64) *failure {
	return fail(ReasonDirectoryTooLarge,
		"Error: %s holds %d entries, more than the %d that one command can move or delete. Work on parts of it.",
		path, entries, limit)
}

func failSecret(rule string, line int64) *failure {
	return fail(ReasonSecretRefused,
		"Error: The text contains what looks like a secret (%s, line %d). Nothing was written. Remove it and try again.",
		rule, line)
}

// noteMasked is what is said beside the result of a command whose text was masked.
func noteMasked(n int, rule string, line int64) string {
	return fmt.Sprintf("Note: %d secrets were replaced by %s (%s, line %d)", n, redacted, rule, line)
}

// maxEchoChars is how much of the model's own text an error repeats.
const maxEchoChars = 1000

// echo repeats the model's own text, cut where it is long.
func echo(s string) string {
	if len(s) <= maxEchoChars {
		return s
	}
	head := firstChars(s, maxEchoChars)
	if rest := utf8.RuneCountInString(s[len(head):]); rest > 0 {
		return head + "... [" + strconv.Itoa(rest) + " more characters]"
	}
	return s
}

// firstChars returns the first n code points of s.
func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// formatSize writes a number of bytes as listings do: 12B, 1.5K, 1024.0K, 3.0M, rounded half up.
func formatSize(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	shift, unit := 10, "K"
	switch {
	case n >= 1<<30:
		shift, unit = 30, "G"
	case n >= 1<<20:
		shift, unit = 20, "M"
	}
	whole, rest := n>>shift, n&(1<<shift-1)
	tenths := (rest*10 + 1<<(shift-1)) >> shift
	return strconv.FormatInt(whole+tenths/10, 10) + "." + strconv.FormatInt(tenths%10, 10) + unit
}
