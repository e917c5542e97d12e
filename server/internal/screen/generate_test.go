package screen

import (
	"math/rand/v2"
	"regexp/syntax"
	"strings"
)

// generator makes texts that a regular expression matches.
type generator struct{ *rand.Rand }

func (g generator) text(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	g.write(&b, re)
	return b.String()
}

func (g generator) write(b *strings.Builder, re *syntax.Regexp) {
	repeat := func(least, most int) {
		if most < 0 {
			most = least + 40
		}
		for range least + g.IntN(most-least+1) {
			g.write(b, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(g.char(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte("abcXYZ019"[g.IntN(9)])
	case syntax.OpCapture:
		g.write(b, re.Sub[0])
	case syntax.OpStar:
		repeat(0, -1)
	case syntax.OpPlus:
		repeat(1, -1)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(re.Min, re.Max)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			g.write(b, sub)
		}
	case syntax.OpAlternate:
		g.write(b, re.Sub[g.IntN(len(re.Sub))])
	}
}

// char is a printable character of a class, if it has one.
func (g generator) char(class []rune) rune {
	var printable []rune
	for r := rune(' '); r < 0x7f; r++ {
		for i := 0; i < len(class); i += 2 {
			if class[i] <= r && r <= class[i+1] {
				printable = append(printable, r)
				break
			}
		}
	}
	if len(printable) == 0 {
		return class[0]
	}
	return printable[g.IntN(len(printable))]
}
