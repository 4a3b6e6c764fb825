package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// amountVar adds a flag for a number that cannot be negative.
func amountVar(f *pflag.FlagSet, value *int, name string, otherwise int, usage string) {
	*value = otherwise
	f.Var((*amount)(value), name, usage)
}

// amount is the value of a flag. It implements pflag.Value.
type amount int

// Set reads a number.
func (a *amount) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("it must be a whole number, 0 or more")
	}
	*a = amount(n)
	return nil
}

// String returns the number.
func (a *amount) String() string { return strconv.Itoa(int(*a)) }

// Type is the word of pflag for such values.
func (*amount) Type() string { return "int" }
