package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
)

// textFlag adds a flag with the description in the chat's grammar. It does not add a flag that the grammar lacks;
// TestChatGrammar reports that.
func textFlag(c *cobra.Command, verb command.Verb, name string, value *string) {
	if f, ok := chatFlag(verb, name); ok {
		c.Flags().StringVar(value, name, "", f.Usage)
	}
}

// listFlag adds a repeatable flag with the description in the chat's grammar.
func listFlag(c *cobra.Command, verb command.Verb, name string, value *[]string) {
	if f, ok := chatFlag(verb, name); ok {
		c.Flags().StringSliceVar(value, name, nil, f.Usage)
	}
}

// switchFlag adds a flag without a value with the description in the chat's grammar.
func switchFlag(c *cobra.Command, verb command.Verb, name string, value *bool) {
	if f, ok := chatFlag(verb, name); ok {
		c.Flags().BoolVar(value, name, false, f.Usage)
	}
}

// chatFlag returns a flag of the chat's grammar.
func chatFlag(verb command.Verb, name string) (command.Flag, bool) {
	spec, _ := command.Find(verb) // a verb without a spec has no flags
	return spec.Flag(name)
}
