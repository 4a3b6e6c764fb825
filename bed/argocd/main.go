// Command argocd is the parts of Argo CD that sync a cluster, and a Redis for them, for the tests of the bed:
//
//	argocd redis ADDRESS
//	argocd application-controller|repo-server|notifications [arguments of Argo CD's program]
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	notifications "github.com/argoproj/argo-cd/v3/cmd/argocd-notification/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/util/log"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: argocd redis|application-controller|repo-server|notifications …")
	}
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
	var command *cobra.Command
	switch args[0] {
	case "redis":
		if len(args) != 2 {
			return errors.New("usage: argocd redis ADDRESS")
		}
		return serveRedis(args[1])
	case "application-controller":
		command = controller.NewCommand()
	case "repo-server":
		command = reposerver.NewCommand()
	case "notifications":
		command = notifications.NewCommand()
	default:
		return fmt.Errorf("unknown part %q", args[0])
	}
	command.SetArgs(args[1:])
	return command.Execute()
}

// serveRedis serves a Redis in memory until a signal.
func serveRedis(address string) error {
	redis := miniredis.NewMiniRedis()
	if err := redis.StartAddr(address); err != nil {
		return err
	}
	defer redis.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-clock.C: // keys expire by this clock only
			redis.FastForward(time.Second)
		}
	}
}
