package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// fileBytes is the size of a file, unless something else is said.
const fileBytes = 2 << 10

// words make texts that look like notes: nothing in them looks like a secret.
var words = strings.Fields(`the customer asked about a late order and was told that it left the warehouse on monday
support should answer within one day unless the ticket is marked as urgent by the team on call notes from the last
session say which steps were tried before restart the service check the queue then look at the log of the worker
prefer short answers keep the tone friendly never promise a date remember to update the progress file at the end`)

// newText returns a text of so many bytes, in lines of some words. The same number gives the same text.
func newText(number uint64, size int) string {
	random := rand.New(rand.NewPCG(number, uint64(size))) //nolint:gosec // Texts are to be the same again.
	var b strings.Builder
	for b.Len() < size {
		for range 12 {
			b.WriteString(words[random.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	return b.String()[:size]
}

// texts are some files, so that not all are the same.
var texts = func() []string {
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = newText(uint64(i), fileBytes)
	}
	return texts
}()

// textOf returns the text of the file with a number.
func textOf(number int) string { return texts[number%len(texts)] }

// directoryFiles is how many files a directory has.
const directoryFiles = 100

// pathOf returns the path of the file with a number, one of directoryFiles in its directory.
func pathOf(number int) string {
	return fmt.Sprintf("%s/note-%d.md", pathDirectory(number), number)
}

// pathDirectory returns the directory of pathOf.
func pathDirectory(number int) string {
	return fmt.Sprintf("/memories/notes-%d", number/directoryFiles)
}
