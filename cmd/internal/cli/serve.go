package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service"
	"github.com/sluice-gitops/sluice/service/config"
)

type serveOptions struct {
	file   string
	format string
	level  string
	check  bool
}

func newServe(o IO) *cobra.Command {
	var s serveOptions
	c := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the service: reviews, hydration and promotions for webhooks",
		Long: `Runs the service. It receives webhooks of GitHub, GitLab and Gitea at /hooks/<name of the forge>, reviews merge requests, hydrates
the trunk, and promotes. All state is in Git and on the forge; you can delete the data folder at any time.

On SIGHUP, the service reads the configuration again. On SIGTERM or SIGINT, it starts no more work, stops reviews, which run
again after the next start, waits for other running work for at most the time in drain, and exits.`,
		Example: `  sluice serve --config /etc/sluice/config.yaml
  sluice serve --config config.yaml --check      # only checks the configuration`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&s.file, "config", "", "configuration `file` (required; default: SLUICE_CONFIG)")
	f.StringVar(&s.format, "log", "text", "text or json")
	f.StringVar(&s.level, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&s.check, "check", false, "check the configuration and its secrets, send no request, and exit")
	return c
}

func (s *serveOptions) run(ctx context.Context, o IO) error {
	if s.file == "" {
		s.file = o.Env.Getenv("SLUICE_CONFIG")
	}
	if s.file == "" {
		return &exitError{ExitUsage, errors.New("--config is required: see docs/service.md for a configuration")}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.level)); err != nil {
		return &exitError{ExitUsage, fmt.Errorf("--log-level: %w", err)}
	}
	log := slog.New(logHandler(o.Err, s.format, level))
	load := func() (*config.Config, error) {
		data, err := os.ReadFile(s.file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the configuration file %s does not exist: name it with --config or SLUICE_CONFIG, see docs/service.md for a configuration", s.file)
		}
		if err != nil {
			return nil, err
		}
		//nolint:gosec // the configuration names it
		read := func(name string) ([]byte, error) { return os.ReadFile(name) }
		return config.Parse(s.file, data, config.Sources{Getenv: o.Env.Getenv, Read: read})
	}
	options := app.ServiceOptions{Env: o.Env, Load: load, Log: log}
	if s.check {
		c, err := app.CheckService(options)
		if err == nil {
			fmt.Fprintf(o.Out, "%s: %s, no errors\n", s.file, report.Count(len(c.Forges), "forge"))
		}
		return err
	}
	c, err := load()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := worker.Hide(); err != nil {
		return fmt.Errorf("hide the environment and the memory from worker processes: %w", err)
	}
	srv, err := app.NewService(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		if err := srv.Close(); err != nil {
			log.Error("close", "error", err)
		}
	}()
	if c.Tracing != "" {
		end, err := srv.Trace(ctx, c.Tracing, o.Env.Getenv)
		if err != nil {
			return fmt.Errorf("tracing: %w", err)
		}
		defer func() { _ = end(context.WithoutCancel(ctx)) }() // only spans can be lost
	}
	return serve(ctx, srv, c, log)
}

// serve runs the HTTP servers and the service until the context ends.
func serve(ctx context.Context, srv *service.Service, c *config.Config, log *slog.Logger) error {
	pages, err := srv.Pages()
	if err != nil {
		return err
	}
	fail := make(chan error, 4)
	servers := []*http.Server{}
	for address, handler := range map[string]http.Handler{
		c.Listen: srv.Handler(), c.Metrics: srv.MetricsHandler(),
		c.Debug: service.DebugHandler(), c.Pages.Listen: pages,
	} {
		if address == "" {
			continue
		}
		server := &http.Server{
			Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
			WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}
		if address == c.Pages.Listen {
			server.RegisterOnShutdown(pages.Close)
			log.Info("serving pages", "address", address)
		}
		servers = append(servers, server)
		go func() {
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				fail <- err
			}
		}()
	}
	log.Info("listening", "address", c.Listen)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- srv.Run(work) }()
	for {
		select {
		case <-hup:
			if err := srv.Reload(); err != nil {
				log.Error("the new configuration is invalid; the service keeps the old one", "error", err)
			} else {
				log.Info("the configuration was read again")
			}
		case err := <-fail:
			cancel()
			return errors.Join(err, <-done)
		case err := <-done:
			return err
		case <-ctx.Done():
			log.Info("draining")
			for _, server := range servers {
				shut, end := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
				_ = server.Shutdown(shut) // the forge sends an interrupted webhook again
				end()
			}
			return <-done
		}
	}
}

// logHandler writes log lines as text or JSON. It escapes characters that a log viewer or a terminal would interpret.
func logHandler(w io.Writer, format string, level slog.Level) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: safetext.Log}
	if format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}
