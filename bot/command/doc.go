// Package command owns the grammar of chat commands: which lines of a comment are commands, and what they ask for. It is
// pure: it knows no forge, no clock and no fleet, and it never decides whether somebody may do what they ask for.
package command
