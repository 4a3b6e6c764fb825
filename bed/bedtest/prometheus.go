package bedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
)

// Prometheus is a running Prometheus.
type Prometheus struct {
	URL string // http://127.0.0.1:port
	*process
}

// StartPrometheus starts a Prometheus with its data in an empty folder, which reads the metrics of one address every second,
// and waits until it has read them.
func StartPrometheus(ctx context.Context, dir, target string) (*Prometheus, error) {
	folder, err := part("prometheus")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 1s}\n"+
		"scrape_configs:\n- {job_name: app, static_configs: [{targets: [%q]}]}\n", target), 0o600); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(folder, "prometheus"), "--config.file="+config, //nolint:gosec // built by make bed
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	p := &Prometheus{URL: "http://" + address}
	if p.process, err = start("prometheus", dir, cmd); err != nil {
		return nil, err
	}
	if err := p.ready(ctx, func() error { return p.has(ctx, "up == 1") }); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// has returns an error unless a query has a result.
func (p *Prometheus) has(ctx context.Context, query string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	var answer struct{ Data struct{ Result []any } }
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	if len(answer.Data.Result) == 0 {
		return fmt.Errorf("%s has no result", query)
	}
	return nil
}
