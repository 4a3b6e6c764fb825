// Command sluice renders fleets of Kubernetes clusters into Git branches.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/cmd/internal/cli"
)

func main() {
	// Helm's packages warn there about values, which can be secrets; Sluice writes no line to it
	log.SetOutput(io.Discard)
	// The services and workers live long, and hold caches.
	if !slices.Contains([]string{"serve", "mcp", app.ChildCommand}, strings.Join(os.Args[1:min(2, len(os.Args))], "")) {
		letHeapGrow()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.System())
	stop()
	os.Exit(code)
}
