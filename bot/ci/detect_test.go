package ci_test

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/ci"
)

const (
	head = "1111111111111111111111111111111111111111"
	base = "2222222222222222222222222222222222222222"
)

func TestDetect(t *testing.T) {
	actions := func(event string) map[string]string {
		return map[string]string{
			"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": "event.json",
			"GITHUB_REPOSITORY": "acme/fleet",
			"GITHUB_REF":        "refs/heads/main", "GITHUB_SHA": head, "GITHUB_RUN_ID": "5",
		}
	}
	gitlab := func(more ...string) map[string]string {
		out := map[string]string{
			"GITLAB_CI": "true", "CI_PROJECT_PATH": "acme/ops/fleet", "CI_COMMIT_SHA": head,
			"CI_API_V4_URL": "https://git.example.com/api/v4",
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	giteaActions := func(event string) map[string]string {
		out := actions(event)
		out["GITEA_ACTIONS"] = "true"
		out["GITHUB_SERVER_URL"], out["GITHUB_API_URL"] = "https://git.example.com", "https://git.example.com/api/v1"
		return out
	}
	woodpecker := func(event string, more ...string) map[string]string {
		out := map[string]string{
			"CI": "woodpecker", "CI_FORGE_TYPE": "forgejo", "CI_FORGE_URL": "https://git.example.com",
			"CI_REPO": "acme/fleet", "CI_PIPELINE_EVENT": event, "CI_COMMIT_SHA": head, "CI_COMMIT_BRANCH": "main",
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	pull := func(repo string) string {
		return `{"pull_request":{"number":7,"draft":true,"head":{"sha":"` + head + `","repo":` + repo +
			`},"base":{"sha":"` + base + `","ref":"main"}}}`
	}
	for name, tc := range map[string]struct {
		env   map[string]string
		event string
		want  ci.Context
		err   string
	}{
		"pull request": {
			actions("pull_request"), pull(`{"full_name":"acme/fleet"}`),
			ci.Context{Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true},
			"",
		},
		"fork": {
			actions("pull_request"), pull(`{"full_name":"eve/fleet"}`),
			ci.Context{
				Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true,
				Fork: true,
			},
			"",
		},
		"deleted fork": {
			actions("pull_request_target"), pull(`null`),
			ci.Context{
				Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true,
				Fork: true,
			},
			"",
		},
		"push": {
			actions("push"), `{"ref":"refs/heads/main","after":"` + head + `"}`,
			ci.Context{Kind: ci.Trunk, Head: head, Target: "main"},
			"",
		},
		"tag": {
			actions("push"), `{"ref":"refs/tags/v1","after":"` + head + `"}`,
			ci.Context{Kind: ci.Nothing},
			"",
		},
		"branch deleted": {
			actions("push"), `{"ref":"refs/heads/x","after":"` + head + `","deleted":true}`,
			ci.Context{Kind: ci.Nothing},
			"",
		},
		"merge group": {actions("merge_group"), `{"merge_group":{"head_sha":"` + head + `","base_sha":"` + base +
			`","base_ref":"refs/heads/main"}}`, ci.Context{Kind: ci.Queue, Head: head, Base: base, Target: "main"}, ""},
		"follow up": {
			actions("workflow_run"), `{"workflow_run":{"head_sha":"` + head +
				`","event":"pull_request","head_repository":{"full_name":"eve/fleet"}}}`,
			ci.Context{Kind: ci.FollowUp, Head: head, Fork: true},
			"",
		},
		"other event": {actions("issues"), `{}`, ci.Context{Kind: ci.Nothing}, ""},
		"hostile commit": {
			actions("pull_request"), strings.Replace(pull(`null`), head, "--upload-pack=x", 1),
			ci.Context{},
			"GITHUB_EVENT_PATH: ",
		},
		"no JSON": {actions("push"), `{`, ci.Context{}, "event.json"},
		"merge request": {gitlab("CI_MERGE_REQUEST_IID", "12", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main",
			"CI_MERGE_REQUEST_DIFF_BASE_SHA", base), "", ci.Context{
			Kind: ci.Review, MergeRequest: 12, Head: head,
			Base: base, Target: "main",
		}, ""},
		"merged results": {
			gitlab("CI_MERGE_REQUEST_IID", "12", "CI_COMMIT_SHA", base,
				"CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", head), "",
			ci.Context{Kind: ci.Review, MergeRequest: 12, Head: head},
			"",
		},
		"gitlab fork": {
			gitlab("CI_MERGE_REQUEST_IID", "12", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", "eve/fleet"),
			"",
			ci.Context{Kind: ci.Review, MergeRequest: 12, Head: head, Fork: true},
			"",
		},
		"merge train": {
			gitlab("CI_MERGE_REQUEST_IID", "12", "CI_MERGE_REQUEST_EVENT_TYPE", "merge_train"), "",
			ci.Context{Kind: ci.Queue, MergeRequest: 12, Head: head},
			"",
		},
		"gitlab push": {
			gitlab("CI_COMMIT_BRANCH", "main"), "",
			ci.Context{Kind: ci.Trunk, Head: head, Target: "main"},
			"",
		},
		"gitlab tag": {gitlab("CI_COMMIT_TAG", "v1"), "", ci.Context{Kind: ci.Nothing}, ""},
		"hostile path": {
			gitlab("CI_COMMIT_BRANCH", "main", "CI_PROJECT_PATH", "a/b?x=\n"), "",
			ci.Context{},
			"CI_PROJECT_PATH: ",
		},
		"laptop":    {map[string]string{}, "", ci.Context{}, ci.ErrNoCI.Error()},
		"no number": {gitlab("CI_MERGE_REQUEST_IID", "0"), "", ci.Context{}, "CI_MERGE_REQUEST_IID: "},
		"no payload": {
			actions("pull_request"), `{}`,
			ci.Context{},
			`GITHUB_EVENT_PATH: the file has no payload of the event "pull_request"`,
		},
		"gitlab draft": {
			gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TITLE", "[draft] More replicas"),
			"",
			ci.Context{Kind: ci.Review, MergeRequest: 3, Head: head, Draft: true},
			"",
		},
		"gitlab ready": {gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TITLE", "Drafts: More",
			"CI_MERGE_REQUEST_DRAFT", "false"), "", ci.Context{Kind: ci.Review, MergeRequest: 3, Head: head}, ""},
		"gitlab says draft": {gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TITLE", "More",
			"CI_MERGE_REQUEST_DRAFT", "true"), "", ci.Context{
			Kind: ci.Review, MergeRequest: 3, Head: head,
			Draft: true,
		}, ""},
		"zeros are no base": {gitlab("CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",
			strings.Repeat("0", 40)), "", ci.Context{Kind: ci.Review, MergeRequest: 3, Head: head}, ""},
		"gitea pull request": {
			giteaActions("pull_request"), pull(`{"full_name":"eve/fleet"}`),
			ci.Context{
				Kind: ci.Review, MergeRequest: 7, Head: head, Base: base, Target: "main", Draft: true, Fork: true,
			},
			"",
		},
		"gitea push": {
			giteaActions("push"), `{"ref":"refs/heads/main","after":"` + head + `"}`,
			ci.Context{Kind: ci.Trunk, Head: head, Target: "main"},
			"",
		},
		"gitea without its address": {
			map[string]string{"FORGEJO_ACTIONS": "true", "GITHUB_EVENT_NAME": "push"},
			`{}`,
			ci.Context{},
			"GITHUB_API_URL is not set",
		},
		"woodpecker pull request": {
			woodpecker("pull_request", "CI_COMMIT_PULL_REQUEST", "12", "CI_COMMIT_TARGET_BRANCH", "main"), "",
			ci.Context{Kind: ci.Review, MergeRequest: 12, Head: head, Target: "main"},
			"",
		},
		"woodpecker push":   {woodpecker("push"), "", ci.Context{Kind: ci.Trunk, Head: head, Target: "main"}, ""},
		"woodpecker tag":    {woodpecker("tag"), "", ci.Context{Kind: ci.Nothing}, ""},
		"woodpecker number": {woodpecker("pull_request"), "", ci.Context{}, "CI_COMMIT_PULL_REQUEST: "},
		"woodpecker forge":  {woodpecker("push", "CI_FORGE_TYPE", "bitbucket"), "", ci.Context{}, "CI_FORGE_TYPE: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ci.Detect(func(k string) string { return tc.env[k] }, func(name string) ([]byte, error) {
				if name != "event.json" {
					return nil, os.ErrNotExist
				}
				return []byte(tc.event), nil
			})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			have := ci.Context{
				Kind: got.Kind, MergeRequest: got.MergeRequest, Head: got.Head, Base: got.Base,
				Target: got.Target, Fork: got.Fork, Draft: got.Draft,
			}
			if got.Kind == ci.Nothing {
				have = ci.Context{Kind: ci.Nothing}
				if got.Reason == "" {
					t.Error("no reason")
				}
			}
			if have != tc.want {
				t.Errorf("got %+v\nwant %+v", have, tc.want)
			}
		})
	}
	// A container that gets the name of the event and not its file must not look like an event that Sluice ignores.
	without := func(k string) string {
		return map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request"}[k]
	}
	if got, err := ci.Detect(without, nil); err == nil || !strings.Contains(err.Error(), "GITHUB_EVENT_PATH") {
		t.Errorf("without the file of the event: %+v, %v", got, err)
	}
	if _, err := ci.Detect(func(string) string { return "" }, nil); !errors.Is(err, ci.ErrNoCI) {
		t.Errorf("the error is %v", err)
	}
}

// The forge of a job, its API, the pages of the run and the ref of the merge request depend on the CI system.
func TestForgeOfAJob(t *testing.T) {
	const event = `{"pull_request":{"number":7,"head":{"sha":"` + head + `","repo":null},"base":{"sha":"` + base +
		`","ref":"main"}}}`
	runner := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": "event.json",
		"GITHUB_REPOSITORY": "acme/fleet", "GITHUB_RUN_ID": "51", "GITHUB_RUN_NUMBER": "5",
		"GITHUB_SERVER_URL": "https://git.example.com", "GITHUB_API_URL": "https://git.example.com/api/v1",
	}
	with := func(env map[string]string, more ...string) map[string]string {
		out := maps.Clone(env)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	pecker := map[string]string{
		"CI": "woodpecker", "CI_FORGE_TYPE": "gitea", "CI_FORGE_URL": "https://git.example.com/", "CI_REPO": "acme/fleet",
		"CI_PIPELINE_EVENT": "pull_request", "CI_COMMIT_PULL_REQUEST": "7", "CI_COMMIT_SHA": head,
		"CI_PIPELINE_URL": "https://ci.example.com/repos/1/pipeline/5",
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want ci.Context
	}{
		"Gitea Actions": {with(runner, "GITEA_ACTIONS", "true"), ci.Context{
			System: ci.GiteaActions, Forge: ci.Gitea, APIURL: "https://git.example.com/api/v1", HeadRef: "refs/pull/7/head",
			RunURL: "https://git.example.com/acme/fleet/actions/runs/51",
		}},
		"Forgejo Actions": {with(runner, "GITEA_ACTIONS", "true", "FORGEJO_ACTIONS", "true"), ci.Context{
			System: ci.GiteaActions, Forge: ci.Gitea, APIURL: "https://git.example.com/api/v1", HeadRef: "refs/pull/7/head",
			RunURL: "https://git.example.com/acme/fleet/actions/runs/5",
		}},
		"Woodpecker": {pecker, ci.Context{
			System: ci.Woodpecker, Forge: ci.Gitea, APIURL: "https://git.example.com/api/v1", HeadRef: "refs/pull/7/head",
			RunURL: "https://ci.example.com/repos/1/pipeline/5",
		}},
		"Woodpecker with GitLab": {with(pecker, "CI_FORGE_TYPE", "gitlab"), ci.Context{
			System: ci.Woodpecker, Forge: ci.GitLab, APIURL: "https://git.example.com/api/v4",
			HeadRef: "refs/merge-requests/7/head", RunURL: "https://ci.example.com/repos/1/pipeline/5",
		}},
		"GitHub Actions": {runner, ci.Context{
			System: ci.GitHubActions, Forge: ci.GitHub, APIURL: "https://git.example.com/api/v1",
			HeadRef: "refs/pull/7/head", RunURL: "https://git.example.com/acme/fleet/actions/runs/51",
		}},
	} {
		got, err := ci.Detect(func(k string) string { return c.env[k] }, func(string) ([]byte, error) {
			return []byte(event), nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		have := ci.Context{
			System: got.System, Forge: got.Forge, APIURL: got.APIURL, HeadRef: got.HeadRef, RunURL: got.RunURL,
		}
		if have != c.want {
			t.Errorf("%s: got %+v, want %+v", name, have, c.want)
		}
	}
}
