package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
	"github.com/sluice-gitops/sluice/internal/hostile"
)

// talk is a case of talk.yaml, whose head explains the fields.
type talk struct {
	hostile.Head `yaml:",inline"`

	Steps    []talkStep `yaml:"steps"`
	Secret   bool       `yaml:"secret"`
	Refused  *string    `yaml:"refused"`
	Harmless *string    `yaml:"harmless"`
	Lacks    string     `yaml:"lacks"`
}

type talkStep struct {
	Open, Fork, Twin, Await, Status, Close string
	Rewrite, Plant                         string
	Say, Edit                              struct{ By, Text string }
	Grant                                  map[string]string
	Push                                   bool
}

func (s *hostileService) talks() {
	s.t.Helper()
	var all []talk
	s.must(hostile.Load(filepath.Join(hostileTables, "talk.yaml"), &all))
	if len(all) < 20 {
		s.t.Fatalf("only %d cases", len(all))
	}
	s.must(s.Branch("lax", "lax", func(dir string) error {
		policy := "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: lax}\nspec: {rules: {plaintext-secret: {severity: \"off\"}}}\n"
		return errors.Join(os.MkdirAll(filepath.Join(dir, "policy"), 0o750),
			os.WriteFile(filepath.Join(dir, "policy/policy.yaml"), []byte(policy), 0o600))
	}))
	for i := range all {
		if !chosen(i, all[i].Name) {
			continue
		}
		s.t.Run(all[i].Name, func(t *testing.T) {
			before := s.guarded()
			d := &dialogue{
				hostileService: s, t: t, c: &all[i], branch: fmt.Sprint("talk-", i), asked: map[string]int{},
				replaced: map[string]string{}, left: map[string]string{},
			}
			for _, step := range d.c.Steps {
				d.step(step)
			}
			if strict() && len(d.replaced) == 0 { // no freeze is recorded while the records are replaced
				if after := s.guarded(); after != before {
					t.Errorf("records or environments change from\n%s\nto\n%s", before, after)
				}
				s.measureGood(time.Minute)
				before = s.guarded()
			}
			d.check()
			d.restore()
			s.unmoved(t, before)
			d.must(s.CloseRequest(d.number))
		})
	}
}

// guarded returns the branches that no hostile case may move.
func (s *hostileService) guarded() string {
	var out []string
	for name, hash := range s.Refs() {
		if name == "main" || name == "sluice/state" || strings.HasPrefix(name, "env/") ||
			strings.HasPrefix(name, "cluster/") {
			out = append(out, name+" "+hash)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// unmoved fails if what guarded returns has changed, and shows who changed it.
func (s *hostileService) unmoved(t *testing.T, before string) {
	t.Helper()
	if after := s.guarded(); after != before {
		t.Errorf("records or environments change from\n%s\nto\n%s", before, after)
		s.showLog(t)
		t.Log(s.GitOutput("log", "-3", "--format=%h %ad %s%n%b", "-p", "sluice/state"))
	}
}

// dialogue runs one case of talk.yaml.
type dialogue struct {
	*hostileService
	t            *testing.T
	c            *talk
	branch       string
	number, twin int
	said         int64
	asked        map[string]int // how often people gave a command, by its verb
	rounds       int
	replaced     map[string]string // commits of replaced branches, before
	left         map[string]string // and afterwards
}

// replace has somebody with every right on the Git server replace a branch.
func (d *dialogue) replace(branch, commit string) {
	d.t.Helper()
	before := d.Ref(branch)
	if before == "" || commit == "" {
		d.t.Fatalf("%s at %q cannot be replaced by %q", branch, before, commit)
	}
	if _, twice := d.replaced[branch]; !twice {
		d.replaced[branch] = before
	}
	d.left[branch] = commit
	d.must(d.Git(d.Bare(), "update-ref", "refs/heads/"+branch, commit))
}

// restore puts the branches back. They must be as they were replaced.
func (d *dialogue) restore() {
	d.t.Helper()
	for branch, before := range d.replaced {
		if now := d.Ref(branch); now != d.left[branch] {
			d.t.Errorf("%s moves to %s while it is replaced", branch, now)
		}
		d.must(d.Git(d.Bare(), "update-ref", "refs/heads/"+branch, before))
	}
}

func (d *dialogue) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *dialogue) seen() string { return strings.Join(d.Comments(d.number), "\n") }

func (d *dialogue) until(what string, is func() bool) {
	d.t.Helper()
	if err := stage.WaitFor(d.t.Context(), stage.Patience, what, is); err != nil {
		d.t.Fatalf("%v\n%s", err, d.seen())
	}
}

func (d *dialogue) content() func(dir string) error {
	if d.c.Secret {
		return func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifests/baseline/secret.yaml"),
				[]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {password: "+d.branch+"}\n"),
				0o600)
		}
	}
	d.rounds++
	return note(5000+d.rounds, map[int]string{1: "first", 2: "second"}[d.rounds])
}

func (d *dialogue) step(s talkStep) {
	d.t.Helper()
	var err error
	switch {
	case s.Open != "":
		d.must(d.Branch(d.branch, d.branch, d.content()))
		d.number, err = d.Open(d.branch, s.Open)
	case s.Fork != "":
		d.must(errors.Join(d.Git(d.Work(), "fetch", "-q", "origin"),
			d.Git(d.Work(), "checkout", "-q", "-f", "-B", d.branch, "origin/main"), d.content()(d.Work()),
			d.Git(d.Work(), "add", "-A"), d.Git(d.Work(), "commit", "-q", "-m", d.branch)))
		d.number, err = d.OpenFork(d.branch, s.Fork)
	case s.Twin != "":
		d.twin, err = d.OpenInto(d.branch, s.Twin, "ada")
		if err == nil {
			d.until("the second merge request is reviewed", func() bool { return len(d.Comments(d.twin)) > 0 })
		}
	case s.Say.By != "":
		if s.Say.Text == "/sluice trust" {
			// forges date comments in whole seconds, and trust counts only for what was there before
			time.Sleep(2 * time.Second)
		}
		d.said, err = d.Comment(d.number, s.Say.By, s.Say.Text)
		if fields := strings.Fields(s.Say.Text); fields[0] == "/sluice" && s.Say.By != "robot" &&
			s.Say.By != "sluice-bot" {
			d.asked[fields[1]]++
		}
	case s.Edit.By != "":
		err = d.Edit(d.number, d.said, s.Edit.By, s.Edit.Text)
	case s.Push:
		d.must(errors.Join(d.Git(d.Work(), "checkout", "-q", "-f", d.branch), d.content()(d.Work()),
			d.Git(d.Work(), "add", "-A"), d.Git(d.Work(), "commit", "-q", "-m", "again"),
			d.Git(d.Work(), "push", "-q", filepath.Join(d.dir, "git", "eve", "fleet.git"), d.branch)))
		err = d.Pushed(d.number)
	case s.Grant != nil:
		for login, right := range s.Grant {
			d.must(d.Grant(login, right))
		}
	case s.Await != "":
		d.until("a comment contains "+s.Await, func() bool { return strings.Contains(d.seen(), s.Await) })
	case s.Status != "":
		d.until("the status is "+s.Status, func() bool { return d.Status(d.Head(d.number), "sluice") == s.Status })
	case s.Rewrite != "":
		d.replace(s.Rewrite, d.GitOutput("commit-tree", "-m", "unrelated", s.Rewrite+"^{tree}"))
	case s.Plant != "":
		d.replace(s.Plant, d.GitOutput("commit-tree", "-p", s.Plant, "-m", "forged\n\nSluice-Source: "+d.Ref("main")+
			"\nSluice-Promoted-By: mia", "main^{tree}"))
	case s.Close == "twin":
		err = d.CloseRequest(d.twin)
	default:
		d.t.Fatal("a step does nothing")
	}
	d.must(err)
}

// check waits until the service has answered all commands, and a question that was asked after everything else. The
// question alone is not enough: a command that waits for Git can be answered after it.
func (d *dialogue) check() {
	d.t.Helper()
	_, err := d.Comment(d.number, "mia", "/sluice help")
	d.must(err)
	want := ""
	if d.c.Refused != nil {
		want = *d.c.Refused
	} else {
		want = *d.c.Harmless
	}
	d.asked["help"]++
	d.until(fmt.Sprintf("the commands %v are answered, and a comment contains %q", d.asked, want), func() bool {
		seen := d.seen()
		for verb, n := range d.asked {
			if strings.Count(seen, "| `/sluice "+verb) < n {
				return false
			}
		}
		return strings.Contains(seen, want)
	})
	seen := d.seen()
	if d.c.Lacks != "" && strings.Contains(seen, d.c.Lacks) {
		d.t.Errorf("it holds %q:\n%s", d.c.Lacks, seen)
	}
	if html := render(d.t, seen); activeMarkup.MatchString(html) {
		d.t.Errorf("it holds markup: %q", activeMarkup.FindString(html))
	}
}

// request is a case of webhooks.yaml, whose head explains the fields.
type request struct {
	hostile.Head `yaml:",inline"`

	Forge    string            `yaml:"forge"`
	Method   string            `yaml:"method"`
	Path     string            `yaml:"path"`
	Headers  map[string]string `yaml:"headers"`
	Body     string            `yaml:"body"`
	Sign     string            `yaml:"sign"`
	Times    int               `yaml:"times"`
	Refused  []int             `yaml:"refused"`
	Harmless []int             `yaml:"harmless"`
}

func (s *hostileService) webhooks() {
	s.t.Helper()
	var all []request
	s.must(hostile.Load(filepath.Join(hostileTables, "webhooks.yaml"), &all))
	if len(all) < 20 {
		s.t.Fatalf("only %d cases", len(all))
	}
	before := s.guarded()
	for i := range all {
		c := &all[i]
		if c.Forge != s.kind || !chosen(0, c.Name) {
			continue
		}
		s.t.Run(c.Name, func(t *testing.T) {
			var all sync.WaitGroup
			all.Go(func() {
				for range max(c.Times, 1) {
					if status := s.send(t, c); !slices.Contains(append(c.Refused, c.Harmless...), status) {
						t.Errorf("status %d", status)
						return
					}
				}
			})
			if strict() {
				s.measureGood(time.Minute)
			}
			all.Wait()
			if !s.service.Answers(t.Context(), "/readyz") {
				t.Error("the service is not ready any more")
			}
		})
	}
	if !strict() { // where freezes are recorded meanwhile
		s.unmoved(s.t, before)
	}
	s.measureGood(10 * time.Minute)
	if record := s.GitOutput("grep", "-F", "/"+hostileComment+"/", "sluice/state"); record != "" {
		s.t.Errorf("a comment that nobody wrote is in the record:\n%s", record)
	}
}

// hostileComment is the number of a comment that requests of webhooks.yaml name. The forge has none of it.
const hostileComment = "999999"

func (s *hostileService) send(t *testing.T, c *request) int {
	t.Helper()
	body, err := hostile.Expand(c.Body)
	if err != nil {
		t.Fatal(err)
	}
	method, path := c.Method, c.Path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/hooks/f"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.service.Address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range c.Headers {
		r.Header.Set(name, strings.ReplaceAll(value, "@SECRET@", stage.Secret))
	}
	if c.Sign == "good" {
		r.Header.Set("X-GitHub-Delivery", fmt.Sprint("hostile-", time.Now().UnixNano()))
		r.Header.Set("X-Hub-Signature-256", stage.Signature([]byte(body)))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil { // it hung up while the body came
		return http.StatusRequestEntityTooLarge
	}
	_, _ = io.Copy(io.Discard, resp.Body) // only the status counts
	_ = resp.Body.Close()                 // it was read
	return resp.StatusCode
}
