package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// scriptForge is a forge in a script: one repository, acme/fleet, whose Git is $WORK/origin.git.
type scriptForge struct {
	kind  string
	hub   *fakegithub.Server
	lab   *fakegitlab.Server
	url   string
	token string
}

const (
	scriptRepo  = "acme/fleet"
	scriptToken = "token-of-the-script"
	scriptBot   = "project_1_bot_5f3a"
)

// forgeCommand drives a forge:
//
//	forge github|gitlab        starts one, with a bare repository at $GIT_URL/origin.git
//	forge open BRANCH [fork]   opens a merge request and sets $MR
//	forge push|draft|ready|close|merge N
//	forge job mr N | push BRANCH | followup N | queue N
//	forge show N               writes comments and statuses to files of these names
//	forge fail toolong|limit|broken|outage|lost|denied [TIMES]
//	forge say N LOGIN TEXT…    comments, and sets $COMMENT
//	forge status BRANCH STATE NAME   sets a commit status on the tip of a branch
func forgeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: forge COMMAND…")
	}
	if args[0] == "github" || args[0] == "gitlab" {
		startForge(ts, args[0])
		return
	}
	f, ok := ts.Value("forge").(**scriptForge)
	if !ok || *f == nil {
		ts.Fatalf("start a forge first")
	}
	do := map[string]func(*testscript.TestScript, []string){
		"open": (*f).open, "job": (*f).job, "show": (*f).show, "fail": (*f).fail, "say": (*f).say,
		"status": (*f).status,
		"push":   (*f).act, "draft": (*f).act, "ready": (*f).act, "close": (*f).act, "merge": (*f).act,
	}[args[0]]
	if do == nil {
		ts.Fatalf("forge: no command %s", args[0])
	}
	do(ts, args)
}

func startForge(ts *testscript.TestScript, kind string) {
	f := &scriptForge{kind: kind}
	dir := ts.MkAbs("origin.git")
	//nolint:noctx // a moment
	ts.Check(exec.Command("git", "init", "-q", "--bare", "-b", "main", dir).Run())
	//nolint:noctx // a moment
	ts.Check(exec.Command("git", "-C", dir, "config", "http.receivepack", "true").Run())
	//nolint:noctx // a moment
	ts.Check(exec.Command("git", "-C", dir, "config", "uploadpack.allowAnySHA1InWant", "true").Run())
	gitServer(ts, false, nil)
	if kind == "github" {
		f.hub = fakegithub.New(fakegithub.Options{})
		f.hub.AddRepository(scriptRepo, dir)
		f.token = f.hub.WorkflowToken(scriptRepo)
		for _, login := range []string{"ada", "eve", "otto"} {
			f.hub.AddUser(login)
		}
		f.hub.Grant(scriptRepo, "ada", "write")
		f.serve(ts, httptest.NewServer(f.hub))
	} else {
		f.lab, f.token = fakegitlab.New(fakegitlab.Options{}), scriptToken
		f.lab.AddProject(scriptRepo, dir)
		f.lab.AddUser(scriptBot, scriptToken, true)
		f.lab.Grant(scriptRepo, scriptBot, fakegitlab.Maintainer)
		for _, login := range []string{"eve", "otto"} {
			f.lab.AddUser(login, "", false)
		}
		f.lab.Grant(scriptRepo, "ada", fakegitlab.Developer)
		f.serve(ts, httptest.NewServer(f.lab))
	}
	*ts.Value("forge").(**scriptForge) = f //nolint:forcetypeassert // Setup put it there
}

func (f *scriptForge) serve(ts *testscript.TestScript, s *httptest.Server) {
	ts.Defer(s.Close)
	f.url = s.URL
	ts.Setenv("FORGE_URL", s.URL)
}

func (f *scriptForge) open(ts *testscript.TestScript, args []string) {
	branch, fork := args[1], slices.Contains(args, "fork")
	target := "main"
	if i := slices.Index(args, "into"); i > 0 {
		target = args[i+1]
	}
	number := 0
	if f.hub != nil {
		pr := fakegithub.PR{Title: "Change " + branch, Author: "ada", Head: branch, Base: target}
		if fork {
			pr.Author, pr.HeadRepo = "eve", "eve/fleet"
			f.hub.AddFork("eve/fleet", filepath.Join(ts.Getenv("WORK"), "fork.git"))
		}
		opened, err := f.hub.OpenPR(scriptRepo, pr)
		ts.Check(err)
		number = opened.Number
	} else {
		s := fakegitlab.MergeRequest{
			Title: "Change " + branch, Author: "ada", SourceBranch: branch,
			TargetBranch: target,
		}
		if fork {
			s.Author, s.SourceProject = "eve", "eve/fleet"
			f.lab.AddProject("eve/fleet", filepath.Join(ts.Getenv("WORK"), "fork.git"))
		}
		number = f.lab.Open(scriptRepo, s)
	}
	ts.Setenv("MR", strconv.Itoa(number))
}

func (f *scriptForge) act(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if f.hub != nil {
		switch args[0] {
		case "push":
			_, err = f.hub.PushPR(scriptRepo, n)
		case "draft", "ready":
			err = f.hub.DraftPR(scriptRepo, n, args[0] == "draft")
		case "close":
			err = f.hub.ClosePR(scriptRepo, n)
		case "merge":
			_, err = f.hub.MergePR(scriptRepo, n, "ada")
		}
		ts.Check(err)
		return
	}
	switch args[0] {
	case "push":
		f.lab.Push(scriptRepo, n)
	case "draft", "ready":
		f.lab.Draft(scriptRepo, n, args[0] == "draft")
	case "close":
		f.lab.Close(scriptRepo, n)
	case "merge":
		_, err = f.lab.Merge(scriptRepo, n, "ada")
	}
	ts.Check(err)
}

func (f *scriptForge) head(n int) string {
	if f.hub != nil {
		pr, err := f.hub.PR(scriptRepo, n)
		if err != nil {
			return ""
		}
		return pr.HeadSHA
	}
	return f.lab.Head(scriptRepo, n)
}

// job sets the variables that a CI job has.
func (f *scriptForge) job(ts *testscript.TestScript, args []string) {
	for _, name := range []string{
		"GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "CI_MERGE_REQUEST_IID", "CI_COMMIT_BRANCH",
		"CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", "GITHUB_WORKSPACE", "CI_PROJECT_DIR",
	} {
		ts.Setenv(name, "")
	}
	n := 0
	if args[1] != "push" {
		var err error
		n, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	if f.hub != nil {
		f.githubJob(ts, args, n)
		return
	}
	set := map[string]string{
		"GITLAB_CI": "true", "GITLAB_TOKEN": f.token, "CI_API_V4_URL": f.url + "/api/v4", "CI_PROJECT_PATH": scriptRepo,
		"CI_JOB_URL": "https://gitlab.example.com/acme/fleet/-/jobs/1",
	}
	if args[1] == "push" {
		set["CI_PIPELINE_SOURCE"], set["CI_COMMIT_BRANCH"], set["CI_COMMIT_SHA"] = "push", args[2],
			gitOutput(ts, "rev-parse", args[2])
	} else {
		set["CI_PIPELINE_SOURCE"], set["CI_MERGE_REQUEST_IID"] = "merge_request_event", args[2]
		set["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"], set["CI_COMMIT_SHA"] = "main", f.head(n)
		set["CI_MERGE_REQUEST_SOURCE_PROJECT_PATH"] = scriptRepo
		if slices.Contains(args, "fork") {
			set["CI_MERGE_REQUEST_SOURCE_PROJECT_PATH"] = "eve/fleet"
		}
	}
	for k, v := range set {
		ts.Setenv(k, v)
	}
}

func (f *scriptForge) githubJob(ts *testscript.TestScript, args []string, n int) {
	event := map[string]any{}
	name := map[string]string{"mr": "pull_request", "push": "push", "followup": "workflow_run"}[args[1]]
	source := scriptRepo
	if slices.Contains(args, "fork") {
		source = "eve/fleet"
	}
	switch args[1] {
	case "push":
		event["ref"], event["after"] = "refs/heads/"+args[2], gitOutput(ts, "rev-parse", args[2])
	case "followup":
		event["workflow_run"] = map[string]any{
			"head_sha": f.head(n), "event": "pull_request",
			"head_repository": map[string]any{"full_name": source},
		}
	default:
		event["pull_request"] = map[string]any{
			"number": n, "head": map[string]any{"sha": f.head(n), "repo": map[string]any{"full_name": source}},
			"base": map[string]any{"ref": "main", "sha": gitOutput(ts, "rev-parse", "main")},
		}
	}
	data, err := json.Marshal(event)
	ts.Check(err)
	file := ts.MkAbs(filepath.Join(ts.Getenv("WORK"), "event.json"))
	ts.Check(os.WriteFile(file, data, 0o600))
	for k, v := range map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": file, "GITHUB_TOKEN": f.token,
		"GITHUB_REPOSITORY": scriptRepo, "GITHUB_API_URL": f.url,
		"GITHUB_RUN_ID": "77", "GITHUB_STEP_SUMMARY": filepath.Join(ts.Getenv("WORK"), "summary.md"),
		"GITHUB_OUTPUT": filepath.Join(ts.Getenv("WORK"), "output.txt"),
	} {
		ts.Setenv(k, v)
	}
}

func gitOutput(ts *testscript.TestScript, args ...string) string {
	//nolint:noctx // a moment
	out, err := exec.Command("git", append([]string{"-C", filepath.Join(ts.Getenv("WORK"), "origin.git")}, args...)...).Output()
	ts.Check(err)
	return strings.TrimSpace(string(out))
}

// show writes what the forge has.
func (f *scriptForge) show(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var comments strings.Builder
	var statuses map[string]string
	count := 0
	add := func(author, body string, reactions []string) {
		count++
		fmt.Fprintf(&comments, "== %s %v\n%s\n", author, reactions, body)
	}
	if f.hub != nil {
		for _, c := range f.hub.Comments(scriptRepo, n) {
			add(c.Author, c.Body, f.hub.Reactions(scriptRepo, c.ID))
		}
		statuses = map[string]string{}
		for _, one := range f.hub.Statuses(scriptRepo, f.head(n)) {
			statuses[one.Context] = one.State
		}
	} else {
		for _, c := range f.lab.Notes(scriptRepo, n) {
			add(c.Author, c.Body, c.Emojis)
		}
		statuses = f.lab.Statuses(scriptRepo, f.head(n))
	}
	fmt.Fprintf(&comments, "total %d\n", count)
	var lines []string
	for k, v := range statuses {
		lines = append(lines, k+" "+v)
	}
	slices.Sort(lines)
	work := ts.Getenv("WORK")
	ts.Check(os.WriteFile(filepath.Join(work, "comments"), []byte(comments.String()), 0o600))
	ts.Check(os.WriteFile(filepath.Join(work, "statuses"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func (f *scriptForge) fail(ts *testscript.TestScript, args []string) {
	times := 1
	if len(args) > 2 {
		var err error
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	if f.hub != nil {
		one, ok := map[string]fakegithub.Fault{
			"toolong": {Kind: fakegithub.TooLong, Method: "!GET", Path: "/comments"},
			"limit":   {Kind: fakegithub.TooMany, RetryAfter: time.Second},
			"broken":  {Kind: fakegithub.BadGateway, Method: "GET"}, "outage": {Kind: fakegithub.BadGateway},
			"lost":   {Kind: fakegithub.Lost, Method: "POST", Path: "/comments"},
			"denied": {Kind: fakegithub.Denied, Method: "!GET"},
		}[args[1]]
		if !ok {
			ts.Fatalf("no fault %s", args[1])
		}
		one.Times = times
		f.hub.Fail(one)
		return
	}
	one, ok := map[string]fakegitlab.Fault{
		"toolong": {Kind: fakegitlab.TooLong, Method: "!GET", Path: "/notes"},
		"limit":   {Kind: fakegitlab.TooMany, RetryAfter: time.Second},
		"broken":  {Kind: fakegitlab.BadGateway, Method: "GET"}, "outage": {Kind: fakegitlab.BadGateway},
		"lost":   {Kind: fakegitlab.Lost, Method: "POST", Path: "/notes"},
		"denied": {Kind: fakegitlab.Denied, Method: "!GET"},
	}[args[1]]
	if !ok {
		ts.Fatalf("no fault %s", args[1])
	}
	one.Times = times
	f.lab.Fail(one)
}

func (f *scriptForge) say(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := strings.ReplaceAll(strings.Join(args[3:], " "), `\n`, "\n")
	if f.hub != nil {
		c, err := f.hub.CommentPR(scriptRepo, n, args[2], text)
		ts.Check(err)
		ts.Setenv("COMMENT", strconv.FormatInt(c.ID, 10))
		return
	}
	ts.Setenv("COMMENT", strconv.Itoa(f.lab.Comment(scriptRepo, n, args[2], text)))
}

func (f *scriptForge) status(ts *testscript.TestScript, args []string) {
	commit := gitOutput(ts, "rev-parse", args[1])
	if f.hub != nil {
		ts.Check(f.hub.SetStatus(scriptRepo, fakegithub.Status{
			SHA: commit, State: args[2], Context: args[3],
			Creator: "otto",
		}))
		return
	}
	f.lab.SetStatus(scriptRepo, commit, "otto", args[2], args[3], "")
}
