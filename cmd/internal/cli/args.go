package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// excludesAnnotation is the annotation in which cobra's MarkFlagsMutuallyExclusive stores its groups: names of flags,
// joined by spaces.
const excludesAnnotation = "cobra_annotation_mutually_exclusive"

// noArgs accepts no arguments. hint suggests what the user may have meant, such as "name the app with --app".
func noArgs(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if hint != "" {
			hint = ": " + hint
		}
		return fmt.Errorf("%s takes no arguments, but got %q%s", c.CommandPath(), args[0], hint)
	}
}

// exactArgs accepts one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("%s takes %s (%s), but got %d", c.CommandPath(), count(len(names), "argument"),
			strings.Join(names, " "), len(args))
	}
}

// maxArgs accepts at most one argument for each name.
func maxArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= len(names) {
			return nil
		}
		return fmt.Errorf("%s takes at most %s (%s), but got %d", c.CommandPath(), count(len(names), "argument"),
			strings.Join(names, " "), len(args))
	}
}

// group returns a command that only has subcommands. Without a subcommand it prints its help; an unknown subcommand
// is a usage error.
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(c, args[0])
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	hint := nearest.DidYouMean(name, names)
	const most = 8 // to list in one line
	if hint == "" && len(names) > 0 && len(names) <= most {
		hint = "; it has " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown command %q for %s%s", name, c.CommandPath(), hint)
}

// flagError says in plain words what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if unknown.GetSpecifiedShortnames() != "" && unknown.GetSpecifiedName() == "o" && c.Flags().Lookup("out") != nil {
			return fmt.Errorf("-o is a format, and %s has none: name the folder with --out", c.CommandPath())
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		return fmt.Errorf("%w%s", err, nearest.DidYouMean("--"+unknown.GetSpecifiedName(), names))
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint": "a whole number of 0 or more", "bool": "true or false",
		"duration": "a time span such as 30m or 2h", "float64": "a number",
	}[invalid.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s must be %s, not %q", invalid.GetFlag().Name, want, invalid.GetValue())
}

// checkCalls turns wrong arguments and contradictory flags of a command and its subcommands into usage errors.
func checkCalls(c *cobra.Command) {
	validate := c.Args
	if validate == nil {
		validate = cobra.ArbitraryArgs
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := validate(c, args)
		if err == nil {
			err = contradiction(c.Flags())
		}
		if err == nil {
			return nil
		}
		return usagef("%w (see `%s --help`)", err, c.CommandPath())
	}
	for _, sub := range c.Commands() {
		checkCalls(sub)
	}
}

// contradiction finds flags of the call that exclude each other.
func contradiction(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		for _, names := range f.Annotations[excludesAnnotation] {
			var set []string
			for name := range strings.FieldsSeq(names) {
				if other := flags.Lookup(name); other != nil && other.Changed {
					set = append(set, "--"+name)
				}
			}
			if len(set) > 1 && err == nil {
				slices.Sort(set)
				err = errors.New(strings.Join(set, " and ") + " exclude each other")
			}
		}
	})
	return err
}
