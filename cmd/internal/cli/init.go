package cli

import "github.com/spf13/cobra"

func newInit(o IO) *cobra.Command { return &cobra.Command{Use: "init"} }
