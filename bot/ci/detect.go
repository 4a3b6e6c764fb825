// Package ci determines from the environment of a CI job what the job runs for: a merge request, or a commit of a
// branch. It reads variables and the event's file and sends no request. Anybody who can push controls this input, so
// the package validates numbers, hashes and paths, and uses no other part of an event.
//
// The package is not API: it can change in every release.
package ci

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// System is a CI system.
type System string

// The systems.
const (
	GitHubActions System = "github"
	GitLabCI      System = "gitlab"
	GiteaActions  System = "gitea" // also Forgejo Actions
	Woodpecker    System = "woodpecker"
)

// Forge is a kind of forge.
type Forge string

// The forges.
const (
	GitHub Forge = "github"
	GitLab Forge = "gitlab"
	Gitea  Forge = "gitea" // also Forgejo
)

// Kind is what a job runs for.
type Kind string

// The kinds.
const (
	Review   Kind = "review"   // a merge request
	Trunk    Kind = "trunk"    // a commit of the trunk or of another branch; the caller compares the names
	Queue    Kind = "queue"    // a candidate of a merge queue: reviewed without a comment
	FollowUp Kind = "followup" // a job that follows another one, for the same head commit
	Nothing  Kind = "nothing"  // an event that Sluice ignores
)

// Context describes what a job runs for. Of Nothing, only System and Reason count.
type Context struct {
	System       System
	Forge        Forge // that has the repository
	Kind         Kind
	Repository   string // full path on the forge
	APIURL       string // base of the forge's API
	ServerURL    string // of the forge's pages
	MergeRequest int    // 0 if it must be looked up by Head
	// ref of the merge request's head in the target repository: refs/pull/7/head; "" without MergeRequest
	HeadRef     string
	Head        string // commit
	Base        string // commit of the target branch as the event has it; "" if the event has none
	Target      string // branch that the merge request goes to, or the branch that was pushed
	Fork        bool   // the head comes from another repository, so the job has no rights
	Draft       bool
	RunURL      string
	SummaryFile string // GITHUB_STEP_SUMMARY
	OutputFile  string // GITHUB_OUTPUT
	Workspace   string // folder of the checkout
	Reason      string // why the job has nothing to do
}

// ErrNoCI means that the environment is not that of a supported CI system.
var ErrNoCI = errors.New("this is not GitHub Actions, GitLab CI, Gitea Actions, Forgejo Actions or Woodpecker: GITHUB_ACTIONS, GITLAB_CI, GITEA_ACTIONS, FORGEJO_ACTIONS or CI=woodpecker must be set. On a laptop, use `sluice diff` and `sluice check`")

// Detect reads the environment. read reads the event's file. It returns ErrNoCI outside of a CI job. Other errors name
// the variable that is missing or not valid.
func Detect(getenv func(string) string, read func(name string) ([]byte, error)) (*Context, error) {
	switch {
	case getenv("GITEA_ACTIONS") == "true" || getenv("FORGEJO_ACTIONS") == "true": // besides GITHUB_ACTIONS
		return giteaActions(getenv, read)
	case getenv("GITHUB_ACTIONS") == "true":
		return github(getenv, read)
	case getenv("GITLAB_CI") == "true":
		return gitlab(getenv)
	case getenv("CI") == "woodpecker":
		return woodpecker(getenv)
	}
	return nil, ErrNoCI
}

// githubEvent has the parts of an event's payload that Sluice reads.
type githubEvent struct {
	PullRequest *struct {
		Number int  `json:"number"`
		Draft  bool `json:"draft"`
		Head   struct {
			SHA   string           `json:"sha"`
			Label string           `json:"label"`
			Repo  *githubEventRepo `json:"repo"`
		} `json:"head"`
		Base struct {
			SHA string `json:"sha"`
			Ref string `json:"ref"`
		} `json:"base"`
	} `json:"pull_request"`
	MergeGroup *struct {
		HeadSHA string `json:"head_sha"`
		BaseSHA string `json:"base_sha"`
		BaseRef string `json:"base_ref"`
	} `json:"merge_group"`
	WorkflowRun *struct {
		HeadSHA string           `json:"head_sha"`
		Event   string           `json:"event"`
		Head    *githubEventRepo `json:"head_repository"`
	} `json:"workflow_run"`
	Ref     string `json:"ref"`
	After   string `json:"after"`
	Deleted bool   `json:"deleted"`
}

type githubEventRepo struct {
	FullName string `json:"full_name"`
}

// require returns an error if an event that Sluice reviews has no payload, as in a container that gets the event's name
// and not its file.
func (e *githubEvent) require(name string) error {
	missing := map[string]bool{
		"pull_request": e.PullRequest == nil, "pull_request_target": e.PullRequest == nil,
		"merge_group": e.MergeGroup == nil, "workflow_run": e.WorkflowRun == nil,
	}
	if missing[name] {
		return fmt.Errorf("GITHUB_EVENT_PATH: the file has no payload of the event %q (a job in a container needs the variable and the file that it names)", name)
	}
	return nil
}

func github(getenv func(string) string, read func(string) ([]byte, error)) (*Context, error) {
	c := &Context{
		System: GitHubActions, Forge: GitHub, Repository: getenv("GITHUB_REPOSITORY"),
		APIURL:      cmp.Or(getenv("GITHUB_API_URL"), "https://api.github.com"),
		ServerURL:   cmp.Or(getenv("GITHUB_SERVER_URL"), "https://github.com"),
		SummaryFile: getenv("GITHUB_STEP_SUMMARY"),
		OutputFile:  getenv("GITHUB_OUTPUT"), Workspace: getenv("GITHUB_WORKSPACE"),
	}
	if run := getenv("GITHUB_RUN_ID"); run != "" {
		c.RunURL = c.ServerURL + "/" + c.Repository + "/actions/runs/" + run
	}
	var event githubEvent
	if file := getenv("GITHUB_EVENT_PATH"); file != "" {
		data, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return nil, fmt.Errorf("GITHUB_EVENT_PATH %s: %w", file, err)
		}
	}
	name := getenv("GITHUB_EVENT_NAME")
	if err := event.require(name); err != nil {
		return nil, err
	}
	switch name {
	case "pull_request", "pull_request_target":
		p := event.PullRequest
		c.Kind, c.MergeRequest, c.Head, c.Base, c.Target, c.Draft = Review, p.Number, p.Head.SHA, p.Base.SHA,
			p.Base.Ref, p.Draft
		c.Fork = p.Head.Repo == nil || p.Head.Repo.FullName != c.Repository ||
			c.System != GitHubActions && p.Head.Label == "" // Gitea: made by a push to refs/for/, for which the right to read suffices
		c.HeadRef = fmt.Sprintf("refs/pull/%d/head", p.Number)
	case "merge_group":
		g := event.MergeGroup
		c.Kind, c.Head, c.Base, c.Target = Queue, g.HeadSHA, g.BaseSHA, strings.TrimPrefix(g.BaseRef, "refs/heads/")
	case "workflow_run":
		w := event.WorkflowRun
		c.Kind, c.Head = FollowUp, w.HeadSHA
		c.Fork = w.Head == nil || w.Head.FullName != c.Repository
		if w.Event != "pull_request" {
			c.Kind, c.Reason = Nothing, "the previous workflow ran for the event "+strconv.Quote(w.Event)
		}
	case "push", "workflow_dispatch", "schedule":
		c.branch(cmp.Or(event.Ref, getenv("GITHUB_REF")), cmp.Or(event.After, getenv("GITHUB_SHA")), event.Deleted)
	default:
		c.Kind, c.Reason = Nothing, "Sluice ignores the event "+strconv.Quote(name)
	}
	return c, c.check("GITHUB_REPOSITORY", "GITHUB_EVENT_PATH")
}

// giteaActions reads the variables and the event of GitHub Actions, which the runners of Gitea and Forgejo set. Runs of
// Forgejo, and of Gitea before 1.26, have the number of the run in their addresses.
func giteaActions(getenv func(string) string, read func(string) ([]byte, error)) (*Context, error) {
	for _, name := range []string{"GITHUB_API_URL", "GITHUB_SERVER_URL"} { // the defaults are GitHub's
		if getenv(name) == "" {
			return nil, fmt.Errorf("%s is not set (the runner sets it to the address of the server)", name)
		}
	}
	c, err := github(getenv, read)
	if err != nil {
		return nil, err
	}
	c.System, c.Forge = GiteaActions, Gitea
	if number := getenv("GITHUB_RUN_NUMBER"); getenv("FORGEJO_ACTIONS") == "true" && number != "" {
		c.RunURL = c.ServerURL + "/" + c.Repository + "/actions/runs/" + number
	}
	return c, nil
}

// woodpecker reads https://woodpecker-ci.org/docs/usage/environment. The variables do not say whether a merge request is
// a draft or comes from a fork: the forge does.
func woodpecker(getenv func(string) string) (*Context, error) {
	server := strings.TrimSuffix(getenv("CI_FORGE_URL"), "/")
	c := &Context{
		System: Woodpecker, Repository: getenv("CI_REPO"), ServerURL: server, RunURL: getenv("CI_PIPELINE_URL"),
		Workspace: getenv("CI_WORKSPACE"),
	}
	ref := "refs/pull/%d/head"
	switch kind := getenv("CI_FORGE_TYPE"); kind {
	case "gitea", "forgejo":
		c.Forge, c.APIURL = Gitea, server+"/api/v1"
	case "gitlab":
		c.Forge, c.APIURL, ref = GitLab, server+"/api/v4", "refs/merge-requests/%d/head"
	case "github":
		c.Forge, c.APIURL = GitHub, server+"/api/v3"
		if server == "https://github.com" {
			c.APIURL = "https://api.github.com"
		}
	default:
		return nil, fmt.Errorf("CI_FORGE_TYPE: Sluice has no adapter for the forge %q (use gitea, forgejo, github or gitlab)", kind)
	}
	if server == "" {
		return nil, errors.New("CI_FORGE_URL is not set (Woodpecker sets it to the address of the forge)")
	}
	switch event := getenv("CI_PIPELINE_EVENT"); event {
	case "pull_request", "pull_request_metadata":
		number, err := strconv.Atoi(getenv("CI_COMMIT_PULL_REQUEST"))
		if err != nil || number <= 0 {
			return nil, fmt.Errorf("CI_COMMIT_PULL_REQUEST: %q is not the number of a merge request",
				getenv("CI_COMMIT_PULL_REQUEST"))
		}
		c.Kind, c.MergeRequest, c.HeadRef = Review, number, fmt.Sprintf(ref, number)
		c.Head, c.Target = getenv("CI_COMMIT_SHA"), getenv("CI_COMMIT_TARGET_BRANCH")
	case "push", "cron", "manual":
		c.branch("refs/heads/"+getenv("CI_COMMIT_BRANCH"), getenv("CI_COMMIT_SHA"), false)
	default:
		c.Kind, c.Reason = Nothing, "Sluice ignores the event "+strconv.Quote(event)
	}
	return c, c.check("CI_REPO", "CI_COMMIT_SHA")
}

// branch makes c the context of a pushed commit of a branch, or of Nothing.
func (c *Context) branch(ref, commit string, deleted bool) {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || deleted {
		c.Kind, c.Reason = Nothing, strconv.Quote(ref)+" is not a pushed branch"
		return
	}
	c.Kind, c.Head, c.Target = Trunk, commit, name
}

func gitlab(getenv func(string) string) (*Context, error) {
	c := &Context{
		System: GitLabCI, Forge: GitLab, Repository: getenv("CI_PROJECT_PATH"),
		APIURL:    cmp.Or(getenv("CI_API_V4_URL"), "https://gitlab.com/api/v4"),
		ServerURL: cmp.Or(getenv("CI_SERVER_URL"), "https://gitlab.com"), RunURL: getenv("CI_JOB_URL"),
		Workspace: getenv("CI_PROJECT_DIR"),
	}
	switch source := getenv("CI_PIPELINE_SOURCE"); {
	case getenv("CI_MERGE_REQUEST_IID") != "":
		number, err := strconv.Atoi(getenv("CI_MERGE_REQUEST_IID"))
		if err != nil || number <= 0 {
			return nil, fmt.Errorf("CI_MERGE_REQUEST_IID: %q is not the number of a merge request",
				getenv("CI_MERGE_REQUEST_IID"))
		}
		c.Kind, c.MergeRequest, c.Target = Review, number, getenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
		c.HeadRef = fmt.Sprintf("refs/merge-requests/%d/head", number)
		c.Repository = cmp.Or(getenv("CI_MERGE_REQUEST_PROJECT_PATH"), c.Repository)
		// A pipeline for merged results runs on a commit that GitLab created; another variable has the head.
		c.Head = cmp.Or(getenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"), getenv("CI_COMMIT_SHA"))
		c.Base = cmp.Or(getenv("CI_MERGE_REQUEST_TARGET_BRANCH_SHA"), getenv("CI_MERGE_REQUEST_DIFF_BASE_SHA"))
		c.Draft = draftTitle.MatchString(getenv("CI_MERGE_REQUEST_TITLE"))
		if draft := getenv("CI_MERGE_REQUEST_DRAFT"); draft != "" { // since GitLab 17.10
			c.Draft = draft == "true"
		}
		if from := getenv("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH"); from != "" {
			c.Fork = from != c.Repository
		}
		if getenv("CI_MERGE_REQUEST_EVENT_TYPE") == "merge_train" {
			c.Kind = Queue
			c.Head = getenv("CI_COMMIT_SHA")
		}
	case getenv("CI_COMMIT_BRANCH") != "":
		c.branch("refs/heads/"+getenv("CI_COMMIT_BRANCH"), getenv("CI_COMMIT_SHA"), false)
	default:
		c.Kind, c.Reason = Nothing, "Sluice ignores pipelines with the source "+strconv.Quote(source)
	}
	return c, c.check("CI_PROJECT_PATH", "CI_COMMIT_SHA")
}

var (
	pathPattern   = regexp.MustCompile(`^[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)+$`)
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
	// https://docs.gitlab.com/user/project/merge_requests/drafts/
	draftTitle = regexp.MustCompile(`(?i)^(\[draft\]|\(draft\)|draft:)`)
)

// check validates numbers, hashes and paths. repository and event name the variables that they come from.
func (c *Context) check(repository, event string) error {
	if c.Kind == Nothing {
		return nil
	}
	if !pathPattern.MatchString(c.Repository) {
		return fmt.Errorf("%s: %q is not the path of a repository", repository, c.Repository)
	}
	if !commitPattern.MatchString(c.Head) {
		return fmt.Errorf("%s: %q is not the hash of a commit", event, c.Head)
	}
	if !commitPattern.MatchString(c.Base) || strings.Trim(c.Base, "0") == "" { // GitLab writes zeros for no commit
		c.Base = ""
	}
	if c.Kind == Review && c.MergeRequest <= 0 {
		return fmt.Errorf("%s: %d is not the number of a merge request", event, c.MergeRequest)
	}
	return nil
}
