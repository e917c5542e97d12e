package validate

import (
	"path"
	"strings"
)

// GivenBy returns the Secrets and ConfigMaps that the commands on a page of the documentation make: the files that
// they hold, by their keys.
func GivenBy(page string) map[Given]map[string]string {
	given := map[Given]map[string]string{}
	for line := range strings.Lines(page) {
		words := strings.Fields(line)
		switch {
		case len(words) < 5 || words[0] != "kubectl" || words[1] != "create":
		case words[2] == "secret":
			given[Given{"Secret", words[4]}] = filesOf(words[5:])
		case words[2] == "configmap":
			given[Given{"ConfigMap", words[3]}] = filesOf(words[4:])
		}
	}
	return given
}

// filesOf returns the files that the arguments of "kubectl create" give, by their keys.
func filesOf(args []string) map[string]string {
	files := map[string]string{}
	for _, arg := range args {
		flag, value, _ := strings.Cut(arg, "=")
		switch flag {
		case "--cert":
			files["tls.crt"] = value
		case "--key":
			files["tls.key"] = value
		case "--from-file":
			key, file, named := strings.Cut(value, "=")
			if !named {
				key, file = path.Base(value), value
			}
			files[key] = file
		}
	}
	return files
}

// Blocks returns the blocks of code in a language on a page.
func Blocks(page, language string) []string {
	var blocks []string
	for {
		_, rest, found := strings.Cut(page, "```"+language+"\n")
		if !found {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "```\n")
		blocks = append(blocks, block)
		page = after
	}
}

// Commands returns the commands of a block of console: what follows "$ ", with the lines that continue it.
func Commands(block string) []string {
	var commands []string
	for _, text := range strings.Split("\n"+block, "\n$ ")[1:] {
		commands = append(commands, strings.TrimSuffix(text, "\n"))
	}
	return commands
}
