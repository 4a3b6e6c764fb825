// Command bench generates fleets and measures Sluice and, in the same run, its rival: one `helm template` process per
// target. Run it with `make bench`. It prints ratios, which are comparable between machines, and seconds, which are
// not.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "",
		"only these parts, by commas: engine, isolation, fleets, diff, renames, push, history, branches, service (deliveries, comments, memory), day, promote, bundle, workspaces, replicas, import, pages")
	clusters := flag.String("clusters", "100 1000", "sizes of the fleets")
	apps := flag.Int("apps", 20, "apps in each fleet")
	rounds := flag.Int("rounds", 12, "rounds of events of the row memory")
	var d day
	flag.IntVar(&d.repositories, "repositories", 200, "repositories of the rows day and replicas; a large installation has 1000")
	flag.IntVar(&d.hours, "hours", 1, "hours of the row day")
	flag.Float64Var(&d.speed, "speed", 36, "how many times faster than the clock the hours of the row day pass")
	base := flag.String("base", "", "another sluice binary: compare it with SLUICE_BIN and measure nothing else")
	limit := flag.Float64("limit", 1.3, "with -base: the greatest ratio of a row")
	keep := flag.String("keep", "", "folder to keep the fleets in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{sizes: strings.Fields(*clusters), apps: *apps, rounds: *rounds, day: d, keep: *keep,
		only: *only, base: *base, limit: *limit})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	sizes        []string
	apps, rounds int
	keep, only   string
	base         string
	day          day
	limit        float64
}

type bench struct {
	ctx          context.Context //nolint:containedctx // one run
	sluice, helm string
	dir          string
	helmOne      time.Duration // median of one `helm template` process
	helmCPU      time.Duration // least processor time of one
}

// measured is the result of running a command.
type measured struct {
	wall time.Duration
	cpu  time.Duration // of the process and its children, user and system
	peak int64         // bytes, the largest of the process and its children
}

func run(ctx context.Context, o options) error {
	b := &bench{ctx: ctx, sluice: os.Getenv("SLUICE_BIN"), helm: os.Getenv("HELM_BIN"), dir: o.keep}
	if b.sluice == "" || b.helm == "" && o.base == "" {
		return errors.New("SLUICE_BIN and HELM_BIN are needed: run `make bench`")
	}
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "sluice-bench-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		b.dir = dir
	}
	if o.base != "" {
		return b.compare(o.base, o.limit)
	}
	var sizes []int
	for _, size := range o.sizes {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		sizes = append(sizes, n)
	}
	fmt.Printf("%d processors, %s\n", runtime.NumCPU(), runtime.Version())
	parts := map[string]func() error{
		"engine":     func() error { return b.engine(cmp.Or(os.Getenv("CORPUS"), "../shared/corpus")) },
		"isolation":  func() error { return isolation(b, slices.Max(sizes), o.apps) },
		"fleets":     func() error { return b.fleets(sizes, o.apps) },
		"diff":       func() error { return b.diffs(sizes, o.apps) },
		"renames":    func() error { return renames([]int{1000, 10_000, 50_000}) },
		"push":       func() error { return b.push(1000, 4000) },
		"history":    func() error { return past{repositories{b}}.run(1_000_000) },
		"branches":   func() error { return readers{repositories{b}}.run(sizes, o.apps, 200) },
		"service":    func() error { return b.service(sizes, o.apps, o.rounds) },
		"deliveries": func() error { return b.deliveries(5000) },
		"comments":   func() error { return b.comments(sizes, o.apps) },
		"memory":     func() error { return b.growth(50, o.rounds) },
		"day":        func() error { return simulate(b, o.day) },
		"promote":    func() error { return b.promotions(slices.Max(sizes), o.apps) },
		"bundle":     func() error { return transfers{repositories{b}}.run(slices.Max(sizes), o.apps) },
		"workspaces": func() error { return tenancy{b}.run(slices.Min(sizes)) },
		"replicas":   func() error { return b.replicas(o.day.repositories) },
		"import":     func() error { return home{b}.run(cmp.Or(os.Getenv("CORPUS"), "../shared/corpus")) },
		"pages":      func() error { return pages(b) },
	}
	names := []string{"engine", "isolation", "fleets", "diff", "renames", "push", "history", "branches", "service",
		"day", "promote", "bundle", "workspaces", "replicas", "import"}
	if o.only != "" {
		names = strings.Split(o.only, ",")
	}
	for _, name := range names {
		part := parts[name]
		if part == nil {
			return fmt.Errorf("-only %s: choose from %s", name, strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		}
		if err := part(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// fleets measures hydration on fleets of all sizes.
func (b *bench) fleets(sizes []int, apps int) error {
	ones := map[int]time.Duration{}
	for _, n := range sizes {
		var err error
		if ones[n], err = b.fleet(n, apps); err != nil {
			return fmt.Errorf("%d clusters: %w", n, err)
		}
	}
	if ones[100] > 0 && ones[1000] > 0 {
		fmt.Printf("\none cluster's value, 1,000 clusters against 100: %.2f × (to reach: 1.3)\n",
			ratio(ones[1000], ones[100]))
	}
	return nil
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// fleet measures one size and returns the median time of a change of one cluster's value.
func (b *bench) fleet(clusters, apps int) (time.Duration, error) {
	targets := clusters * apps
	fmt.Printf("\n== %d clusters × %d apps = %d targets, one value in ten of a cluster's own\n", clusters, apps,
		targets)
	src := filepath.Join(b.dir, fmt.Sprintf("fleet-%d", clusters))
	if err := generate(src, clusters, apps, globalValues); err != nil {
		return 0, err
	}
	if err := (repositories{b}).publish(src); err != nil {
		return 0, err
	}
	rival, err := b.rival(src, clusters, apps)
	if err != nil {
		return 0, err
	}
	cold, err := b.hydrate(src, "--dry-run")
	if err != nil {
		return 0, err
	}
	row("cold, render only", cold,
		fmt.Sprintf("%.0f targets/s; %.1f × faster than the rival for each target (to reach: 60)",
			float64(targets)/cold.wall.Seconds(), rival.Seconds()*float64(targets)/cold.wall.Seconds()))
	each := cold.cpu / time.Duration(targets)
	fmt.Printf("%-28s %8d µs per target; %.0f × less than a helm template process, %d ms (to reach: 60)\n",
		"  its processor time", each.Microseconds(), ratio(b.helmCPU, each), b.helmCPU.Milliseconds())
	whole, err := b.hydrate(src, "--push")
	if err != nil {
		return 0, err
	}
	row("cold, whole, with push", whole, fmt.Sprintf("%.1f × faster than the rival, which pushes nothing",
		rival.Seconds()*float64(targets)/whole.wall.Seconds()))
	if err := (repositories{b}).git(src+".git", "pack-refs", "--all"); err != nil { // as forges do
		return 0, err
	}
	if err := b.changed(src, "README.md", "a file that no target reads\n", "no change (another commit)",
		10); err != nil {
		return 0, err
	}
	var ones []time.Duration
	for i := range 5 {
		name := fmt.Sprintf("apps/app-03/layers/cluster/c-%04d/values.yaml", 7+i)
		if err := b.edit(src, name, fmt.Sprintf("own: changed-%d\n", i)); err != nil {
			return 0, err
		}
		m, err := b.hydrate(src, "--push")
		if err != nil {
			return 0, err
		}
		ones = append(ones, m.wall)
		if i == 4 {
			slices.Sort(ones)
			m.wall = ones[2]
			row("one cluster's value", m, fmt.Sprintf("%.1f × one helm template (to reach: 15)",
				ratio(m.wall, b.helmOne)))
		}
	}
	return ones[2], b.changed(src, "apps/app-05/layers/global/values.yaml", globalValues+"extra: changed\n",
		"one app's global value", 0)
}

func row(what string, m measured, more string) {
	fmt.Printf("%-28s %8.2f s %6d MiB   %s\n", what, m.wall.Seconds(), m.peak>>20, more)
}

func (b *bench) changed(src, name, text, what string, most float64) error {
	if err := b.edit(src, name, text); err != nil {
		return err
	}
	m, err := b.hydrate(src, "--push")
	if err != nil {
		return err
	}
	more := fmt.Sprintf("%.1f × one helm template", ratio(m.wall, b.helmOne))
	if most > 0 {
		more += fmt.Sprintf(" (to reach: %.0f)", most)
	}
	row(what, m, more)
	return nil
}

func (b *bench) hydrate(src string, more ...string) (measured, error) {
	return b.command(src, b.sluice, append([]string{"hydrate", "-q"}, more...)...)
}

// rival measures `helm template` for some targets, on all processors, and returns the wall time per target.
func (b *bench) rival(src string, clusters, apps int) (time.Duration, error) {
	const sample = 40
	var singles []time.Duration
	for i := range 5 {
		m, err := b.template(src, i%clusters, i%apps)
		if err != nil {
			return 0, err
		}
		singles = append(singles, m.wall)
		if i == 0 || m.cpu < b.helmCPU {
			b.helmCPU = m.cpu
		}
	}
	slices.Sort(singles)
	b.helmOne = singles[2]
	start := time.Now()
	errs := make(chan error, runtime.NumCPU())
	work := make(chan int)
	for range runtime.NumCPU() {
		go func() {
			var err error
			for i := range work {
				if _, e := b.template(src, i%clusters, i%apps); e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for i := range sample {
		work <- i
	}
	close(work)
	var err error
	for range runtime.NumCPU() {
		err = errors.Join(err, <-errs)
	}
	each := time.Since(start) / sample
	fmt.Printf("rival: one helm template %.3f s; with all processors busy %.1f targets/s\n", b.helmOne.Seconds(),
		1/each.Seconds())
	return each, err
}

func (b *bench) template(src string, cluster, app int) (measured, error) {
	name := fmt.Sprintf("app-%02d", app)
	return b.command(src, b.helm, "template", name, filepath.Join("charts", name), "--namespace", name,
		"--kube-version", "1.33.2",
		"-f", filepath.Join("apps", name, "layers/global/values.yaml"), "--set", fmt.Sprintf("own=c-%04d", cluster),
		"--set", "global.region=r1")
}

func (b *bench) command(dir, name string, args ...string) (measured, error) {
	_, m, err := b.execute(dir, name, args...)
	return m, err
}

// output runs a command and returns its output.
func (b *bench) output(dir, name string, args ...string) (string, error) {
	text, _, err := b.execute(dir, name, args...)
	return text, err
}

func (b *bench) execute(dir, name string, args ...string) (string, measured, error) {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=b",
		"GIT_AUTHOR_EMAIL=b@example.com",
		"GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.com")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	m := measured{wall: time.Since(start)}
	if s := cmd.ProcessState; s != nil {
		m.cpu = s.UserTime() + s.SystemTime()
		if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
			m.peak = usage.Maxrss << 10
		}
	}
	text := out.String()
	if err != nil {
		return text, m, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err,
			text[max(0, len(text)-2000):])
	}
	return text, m, nil
}

const globalValues = "replicas: 2\nimage: {repository: registry.example.com/app, tag: \"1.0\"}\nown: ${cluster.name}\nhost: app.example.com\nlevel: info\nport: 8080\ncpu: 100m\nmemory: 128Mi\nflag: \"on\"\n"

// generate writes a fleet. One value in ten differs between clusters, so that every target is rendered separately.
func generate(dir string, clusters, apps int, values string) error {
	return writeFiles(dir, fleetFiles(clusters, apps, values))
}

func fleetFiles(clusters, apps int, values string) map[string]string {
	files := map[string]string{
		"sluice.yaml": `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: bench}
spec:
  layers: [environment, region, cluster]
  environments: [{name: prod}]
`,
	}
	for i := range clusters {
		name := fmt.Sprintf("c-%04d", i)
		files["clusters/"+name+".yaml"] = fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: %s\n  labels:\n    region: r%d\nspec:\n  environment: prod\n  kubeVersion: 1.33.2\n  vars:\n    domain: %s.example.com\n", name, i%5, name)
	}
	for i := range 5 {
		files[fmt.Sprintf("layers/region/r%d/values.yaml", i)] = fmt.Sprintf("region: r%d\n", i)
	}
	for i := range apps {
		name := fmt.Sprintf("app-%02d", i)
		files["apps/"+name+"/app.yaml"] = fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\nspec:\n  namespace: %s\n  placement: {}\n  source:\n    helm: {path: charts/%s}\n", name, name, name)
		files["apps/"+name+"/layers/global/values.yaml"] = values
		for file, text := range chart(name) {
			files["charts/"+name+"/"+file] = text
		}
	}
	return files
}

// chart returns an ordinary chart: six objects, helpers, labels.
func chart(name string) map[string]string {
	const head = "metadata:\n  name: {{ .Release.Name }}\n  labels: {{- include \"labels\" . | nindent 4 }}\n"
	return map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"values.yaml": "replicas: 1\nimage: {repository: x, tag: y}\nown: none\nhost: \"\"\nlevel: info\nport: 80\ncpu: 1m\nmemory: 1Mi\nflag: \"off\"\nextra: \"\"\nglobal: {region: none}\n",
		"templates/_helpers.tpl": `{{- define "labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | quote }}
region: {{ .Values.global.region }}
{{- end }}
`,
		"templates/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\n" + head + `spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {{- include "labels" . | nindent 8 }}
        app: {{ .Release.Name }}
    spec:
      containers:
        - name: main
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
          args: [--own, {{ .Values.own | quote }}, --level, {{ .Values.level }}]
          ports: [{name: http, containerPort: {{ .Values.port }}}]
          resources:
            requests: {cpu: {{ .Values.cpu }}, memory: {{ .Values.memory }}}
`,
		"templates/service.yaml": "apiVersion: v1\nkind: Service\n" + head +
			"spec:\n  selector: {app: {{ .Release.Name }}}\n  ports: [{name: http, port: 80, targetPort: http}]\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\n" + head +
			"data:\n  own: {{ .Values.own | quote }}\n  flag: {{ .Values.flag | quote }}\n  extra: {{ .Values.extra | quote }}\n",
		"templates/ingress.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\n" + head +
			"spec:\n  rules:\n    - host: {{ .Values.host }}\n      http:\n        paths: [{path: /, pathType: Prefix, backend: {service: {name: {{ .Release.Name }}, port: {name: http}}}}]\n",
		"templates/account.yaml": "apiVersion: v1\nkind: ServiceAccount\n" + head,
		"templates/disruption.yaml": "apiVersion: policy/v1\nkind: PodDisruptionBudget\n" + head +
			"spec:\n  minAvailable: 1\n  selector:\n    matchLabels: {app: {{ .Release.Name }}}\n",
	}
}
