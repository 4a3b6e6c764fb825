// Command sluice renders fleets of Kubernetes clusters into Git branches.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-gitops/sluice/cmd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.System())
	stop()
	os.Exit(code)
}
