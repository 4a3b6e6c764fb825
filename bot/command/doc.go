// Package command is the grammar of the commands that people write in comments: which lines of a comment are
// commands, and what they mean. The command line's verbs of the same name follow the same table. The package
// knows no forge, clock or fleet, and does not decide who may give a command.
package command
