package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

const errorsPage = "docs/errors.md"

// TestDocs_Reasons checks that docs/errors.md has all reasons of results, with the texts that models read.
func TestDocs_Reasons(t *testing.T) {
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `REASON_(\\w+)` \\| (.*?) \\| ").
		FindAllStringSubmatch(readPage(t, errorsPage).prose(), -1) {
		rows[match[1]] = match[2]
	}
	texts := textsOfReasons(t)
	for number, name := range memoryv1.Reason_name {
		if number == 0 { // success
			continue
		}
		name = strings.TrimPrefix(name, "REASON_")
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s lacks %s", errorsPage, name)
		}
		formats := texts[strings.ReplaceAll(name, "_", "")]
		if len(formats) == 0 {
			t.Errorf("no text of %s was found in the source", name)
		}
		for _, format := range formats {
			pattern := regexp.MustCompile(`%[sdv]`).ReplaceAllString(regexp.QuoteMeta(format), `[\w ,/.]+?`)
			if !regexp.MustCompile("`" + pattern + "( Largest: FILES)?`").MatchString(row) {
				t.Errorf("%s: %s is not said to be %q:\n%s", errorsPage, name, format, row)
			}
		}
		delete(rows, name)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("%s has %s, which there is not", errorsPage, name)
	}
}

// textsOfReasons finds the texts of results in the source, by the name of their reason in upper case without blanks.
func textsOfReasons(t *testing.T) map[string][]string {
	t.Helper()
	texts := map[string][]string{}
	constants := map[string]string{}
	var calls []*ast.CallExpr
	for _, dir := range []string{"server/memory", "client"} {
		files, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					calls = append(calls, n)
				case *ast.ValueSpec:
					if len(n.Values) == 1 {
						constants[n.Names[0].Name] = literal(n.Values[0], nil)
					}
				}
				return true
			})
		}
	}
	for _, call := range calls {
		if len(call.Args) < 2 {
			continue
		}
		reason := ""
		switch arg := call.Args[0].(type) {
		case *ast.Ident:
			reason, _ = strings.CutPrefix(arg.Name, "Reason")
		case *ast.SelectorExpr:
			_, reason, _ = strings.Cut(arg.Sel.Name, "Reason_REASON_")
		}
		text := call.Args[1]
		if sprintf, ok := text.(*ast.CallExpr); ok && len(sprintf.Args) > 0 {
			text = sprintf.Args[0]
		}
		if format := literal(text, constants); reason != "" && format != "" {
			key := strings.ToUpper(strings.ReplaceAll(reason, "_", ""))
			texts[key] = append(texts[key], format)
		}
	}
	return texts
}

// literal is the value of a text in the source: of a literal, a sum of them, or a constant; "" for anything else.
func literal(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return literal(e.X, constants) + literal(e.Y, constants)
	case *ast.Ident:
		return constants[e.Name]
	}
	return ""
}

// TestDocs_Statuses checks that docs/errors.md has the reason and the code of every status that the service gives.
func TestDocs_Statuses(t *testing.T) {
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\| (?:no|who knows) \\|").
		FindAllStringSubmatch(readPage(t, errorsPage).prose(), -1) {
		rows[match[1]] = strings.ReplaceAll(match[2], "_", "")
	}
	source := sources(t, filepath.Join(repository, "server", "internal", "rpc", "errors.go"))
	found := regexp.MustCompile(`codes\.(\w+),\s+"([A-Z_]+)"`).FindAllStringSubmatch(source, -1)
	found = append(found, []string{"", "InvalidArgument", "INVALID_NAMESPACE"}) // instead of INVALID_REQUEST
	if len(found) < 15 {
		t.Fatalf("only %d statuses were found in the source", len(found))
	}
	for _, match := range found {
		code, reason := strings.ToUpper(match[1]), match[2]
		if code == "CANCELED" {
			code = "CANCELLED" // as the documents of gRPC have it
		}
		if rows[reason] != code {
			t.Errorf("%s says that the status of %s is %q, want %s", errorsPage, reason, rows[reason], code)
		}
	}
}
