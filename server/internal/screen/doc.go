// Package screen finds what looks like a secret in a text: keys, tokens and passwords, by the default rules of gitleaks
// and one for the tokens of memoryd itself. It tells where they are and never what they are.
//
// # Cost
//
// All of the rules look for a word of their own, such as the name of a service, and cost nothing where it is missing.
// So a plain text is read at two hundred MB a second, notes about keys and tokens at some twenty, and a text made of
// all those words at less than a tenth of one. Two things keep a call from costing more than it may:
//
//   - A text is scanned in pieces that overlap, so that a word makes the pieces dear that have it, and not the whole.
//     It also bounds the work that grows with the square of what the detector is given.
//   - A scan has a time limit, by the size of the text. What it could not search it says in a finding of the rule
//     RuleUnsearched, since a text that nobody has searched is not one without secrets.
//
// As many large texts are scanned at once as there are processors, and one of a namespace; more have to wait, and get
// their turns in rotation of the namespaces.
//
// # What is found
//
// The rules are made for sources, where a quote, a blank or a semicolon is behind a key. Here any sign may be that is
// not one of keys: notes have brackets, full stops and asterisks there.
//
// # What is not found
//
// Secrets that are encoded, split by other text, or longer than the overlap of two pieces, 16 KiB. A file that names a
// rule's word only in its path.
package screen
