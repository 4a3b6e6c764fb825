// Package command is the grammar of the commands in comments: which lines of a comment are commands, and what they
// mean. The command line's verbs of the same name use the same table. The package knows no forge, clock or fleet, and
// does not decide who may give a command.
//
// The package is not API: it can change in every release.
package command
