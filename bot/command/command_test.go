package command_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want command.Command
	}{
		"help":   {"/sluice help", command.Command{Verb: command.VerbHelp}},
		"status": {"/sluice\tstatus  ", command.Command{Verb: command.VerbStatus}},
		"diff": {
			"/sluice diff --env prod --app a --app b --cluster c1",
			command.Command{Verb: command.VerbDiff, Env: "prod", App: []string{"a", "b"}, Clusters: []string{"c1"}},
		},
		"explain": {
			"/sluice explain web eu-1 .controller.image[0]",
			command.Command{
				Verb: command.VerbExplain, App: []string{"web"}, Clusters: []string{"eu-1"},
				Path: ".controller.image[0]",
			},
		},
		"retry":   {"/sluice retry", command.Command{Verb: command.VerbRetry}},
		"cancel":  {"/sluice cancel", command.Command{Verb: command.VerbCancel}},
		"trust":   {"/sluice trust", command.Command{Verb: command.VerbTrust}},
		"approve": {"/sluice approve prod", command.Command{Verb: command.VerbApprove, Env: "prod"}},
		"promote": {"/sluice promote prod", command.Command{Verb: command.VerbPromote, Env: "prod"}},
		"a workspace": {
			"/sluice rollback prod --workspace team-a --workspace=team-b",
			command.Command{Verb: command.VerbRollback, Env: "prod", Spaces: []string{"team-a", "team-b"}},
		},
		"promote flags": {
			"/sluice promote --app=web prod --commit abc1234 --app web",
			command.Command{Verb: command.VerbPromote, Env: "prod", App: []string{"web"}, Commit: "abc1234"},
		},
		"promote now": {
			`/sluice promote prod --now --reason "a \"hot\" fix \\ now"`,
			command.Command{Verb: command.VerbPromote, Env: "prod", Now: true, Reason: `a "hot" fix \ now`},
		},
		"promote cancel": {
			`/sluice promote prod --cancel --reason "the wrong commit"`,
			command.Command{Verb: command.VerbPromote, Env: "prod", Cancel: true, Reason: "the wrong commit"},
		},
		"single quotes": {
			`/sluice promote prod --now --reason 'it "is" down\'`,
			command.Command{Verb: command.VerbPromote, Env: "prod", Now: true, Reason: `it "is" down\`},
		},
		"typographic": {
			`/sluice freeze prod --reason “the fair’s week”`,
			command.Command{Verb: command.VerbFreeze, Target: "prod", Reason: "the fair’s week"},
		},
		"german": {
			`/sluice freeze prod --reason „Messe heute“`,
			command.Command{Verb: command.VerbFreeze, Target: "prod", Reason: "Messe heute"},
		},
		"apostrophe": {
			`/sluice freeze prod --reason it's`,
			command.Command{Verb: command.VerbFreeze, Target: "prod", Reason: "it's"},
		},
		"value like a flag": {
			`/sluice freeze prod --reason "--now"`,
			command.Command{Verb: command.VerbFreeze, Target: "prod", Reason: "--now"},
		},
		"inline quotes": {
			`/sluice freeze prod --reason="two words" --until=3d`,
			command.Command{Verb: command.VerbFreeze, Target: "prod", Reason: "two words", Until: "3d"},
		},
		"rollback": {
			"/sluice rollback prod --to main --cluster eu-1 --app web",
			command.Command{
				Verb: command.VerbRollback, Env: "prod", To: "main", Clusters: []string{"eu-1"},
				App: []string{"web"},
			},
		},
		"unfreeze": {"/sluice unfreeze eu-1.a", command.Command{Verb: command.VerbUnfreeze, Target: "eu-1.a"}},
		"halt":     {"/sluice halt prod", command.Command{Verb: command.VerbHalt, Env: "prod"}},
		"reasons": {
			`/sluice rollback prod --wave canary --reason "errors"`,
			command.Command{Verb: command.VerbRollback, Env: "prod", Wave: "canary", Reason: "errors"},
		},
		"resume": {"/sluice resume prod", command.Command{Verb: command.VerbResume, Env: "prod"}},
		"resume of holds": {
			"/sluice resume prod --hold team-a/web --hold 1a2b3c4d",
			command.Command{Verb: command.VerbResume, Env: "prod", Hold: []string{"team-a/web", "1a2b3c4d"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := command.Parse(test.line)
			if len(problems) > 0 || len(got) != 1 {
				t.Fatalf("%d commands, problems: %v", len(got), problems)
			}
			canonical := got[0].String()
			got[0].Text, got[0].Line = "", 0
			if !reflect.DeepEqual(got[0], test.want) {
				t.Fatalf("got  %+v\nwant %+v", got[0], test.want)
			}
			again, problems := command.Parse(canonical)
			if len(problems) > 0 || len(again) != 1 {
				t.Fatalf("%s: the problems are %v", canonical, problems)
			}
			again[0].Text, again[0].Line = "", 0
			if !reflect.DeepEqual(again[0], test.want) {
				t.Fatalf("canonical %s\ngot  %+v\nwant %+v", canonical, again[0], test.want)
			}
		})
	}
}

// The message of a refused command has the reason and the correct form.
func TestProblems(t *testing.T) {
	for line, want := range map[string]string{
		"/sluice":                                         "a verb is missing (/sluice help lists them)",
		"/sluice promot prod":                             `no command "promot", did you mean promote?`,
		"/sluice Promote prod":                            "did you mean promote?",
		"/sluice destroy everything":                      `no command "destroy" (`,
		"/sluice promote":                                 "ENV is missing (the syntax is /sluice promote ENV [--app A]…",
		"/sluice promote prod staging":                    `unexpected word "staging"`,
		"/sluice promote prod --ap web":                   `no flag "--ap", did you mean --app?`,
		"/sluice promote prod -app web":                   "did you mean --app?",
		"/sluice promote prod —reason x":                  "did you mean --reason? (promote takes --app, --workspace, --commit, --now, --cancel, --again and --reason)",
		"/sluice halt prod --until 4h":                    `halt has no flag "--until" (halt takes --reason)`,
		"/sluice status --env prod":                       "status takes no flags",
		"/sluice promote prod --now":                      "--now needs a --reason",
		"/sluice promote prod --cancel --commit 1a2b3c4":  "only --reason goes with it",
		"/sluice promote prod --now=yes --reason x":       "--now takes no value",
		"/sluice promote prod --commit":                   "--commit needs a value",
		"/sluice promote prod --commit --now":             "--commit needs a value",
		"/sluice promote prod --commit a --commit b":      "--commit is repeated",
		"/sluice promote prod --commit a..b":              "is not a revision",
		"/sluice promote prod --commit \"-x\"":            "is not a revision",
		"/sluice promote ../x":                            "is not a name",
		"/sluice promote Prod":                            "is not a name (lower-case",
		"/sluice promote prod --app \"\"":                 "is not a name",
		"/sluice halt \"prod":                             "the quotation mark \" is not closed",
		"/sluice freeze prod":                             "--reason is missing",
		"/sluice freeze prod --reason \" \"":              "must be a text of 1 to 300",
		"/sluice freeze prod --reason x --until tomorrow": "is not a time (write one such as 2026-12-24T18:00:00Z",
		"/sluice halt prod\u202e":                         "invisible character U+202E",
		"/sluice halt prod\x00":                           "invisible character",
		"/sluice halt prod\xff":                           "not UTF-8",
		"/sluice explain a b":                             "PATH is missing",
		"/sluice help me":                                 "unexpected word",
		"/sluice halt " + strings.Repeat("a", 64):         "is not a name",
		"/sluice halt " + strings.Repeat("a", 2000):       "at most 1024 are read",
		"/sluice halt " + strings.Repeat("a ", 45):        "more than 40 words",
		"/sluice promote prod" + manyApps(21):             "more than 20 times",
	} {
		got, problems := command.Parse(line)
		if len(got) != 0 || len(problems) != 1 {
			t.Errorf("%.60q: %d commands, %d problems", line, len(got), len(problems))
			continue
		}
		if text := problems[0].String(); !strings.Contains(text, want) {
			t.Errorf("%.60q: %q does not say %q", line, text, want)
		}
		if problems[0].Hint == "" {
			t.Errorf("%.60q: no next step", line)
		}
	}
}

func manyApps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(" --app=a" + string(rune('a'+i)))
	}
	return b.String()
}

// Only plain text at column 0 is a command.
func TestCommandPositions(t *testing.T) {
	const line = "/sluice halt prod"
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"alone":                       {line, 1},
		"after text":                  {"Please.\n" + line + "\nThanks", 1},
		"windows":                     {"Please.\r\n" + line + "\r\n", 1},
		"old mac":                     {"Please.\r" + line + "\r", 1},
		"after a quotation":           {"> said so\n\n" + line, 1},
		"after a list":                {"- x\n\n" + line, 1},
		"after code":                  {"```\nx\n```\n" + line, 1},
		"between details":             {"<details>\n\n" + line + "\n\n</details>", 1},
		"after an HTML quotation":     {"<blockquote>\n\nx\n\n</blockquote>\n\n" + line, 1},
		"after a comment of HTML":     {"<!-- <blockquote> -->\n\n" + line, 1},
		"after GitLab's quotation":    {">>>\nx\n>>>\n\n" + line, 1},
		"an open GitLab quotation":    {">>>\nx\n" + line, 1},
		"not at the beginning":        {"x " + line, 0},
		"indented":                    {" " + line, 0},
		"indented code":               {"x\n\n    " + line, 0},
		"a tab":                       {"\t" + line, 0},
		"fence":                       {"```\n" + line + "\n```", 0},
		"fence with words":            {"```sh\n" + line + "\n```", 0},
		"tildes":                      {"~~~\n" + line + "\n~~~", 0},
		"a fence that does not end":   {"```\n" + line, 0},
		"a longer fence":              {"````\n```\n" + line + "\n````", 0},
		"a fence in a list":           {"- ```\n" + line + "\n  ```", 1}, // the fence ends with its list
		"code span":                   {"`" + line + "`", 0},
		"code span over lines":        {"a `b\n" + line + "\nc` d", 0},
		"quoted":                      {"> " + line, 0},
		"lazily quoted":               {"> a\n" + line, 0},
		"quoted at the column":        {">\n" + line, 1}, // an empty quotation has no lazy continuation lines
		"nested quotation":            {">> a\n" + line, 0},
		"list item":                   {"- " + line, 0},
		"lazy list item":              {"- a\n" + line, 0},
		"HTML comment":                {"<!--\n" + line + "\n-->", 0},
		"HTML comment inside a line":  {"a <!--\n" + line + "\n--> b", 0},
		"HTML block":                  {"<div>\n" + line + "\n</div>", 0},
		"pre":                         {"<pre>\n\n" + line + "\n\n</pre>", 0},
		"HTML quotation":              {"<blockquote>\n\n" + line + "\n\n</blockquote>", 0},
		"HTML quotation, attributes":  {"<blockquote cite=\"x\">\n\n" + line + "\n\n</blockquote>", 0},
		"pre inside a line":           {"see <pre>\n\n" + line + "\n\n</pre>", 0},
		"pre, upper case, over lines": {"<PRE\nclass=x>\n\n" + line + "\n\n</PRE>", 0},
		"pre in details":              {"<details><pre>\n\n" + line + "\n\n</pre></details>", 0},
		"pre that is not closed":      {"<pre>\n\n" + line, 0},
		"pre after another one":       {"<pre>x</pre>\n\n<pre>\n\n" + line + "\n\n</pre>", 0},
		"a literal comment and pre":   {"a <!-- b\n\n<pre> -->\n\n" + line + "\n\n</pre>", 0},
		"code, keyboard, table": {"<code>\n\n" + line + "\n\n</code>\n\n<kbd>\n\n" + line +
			"\n\n</kbd>\n\n<table><tr><td>\n\n" + line + "\n\n</td></tr></table>", 0},
		"struck out by HTML":              {"<del>\n\n" + line + "\n\n</del>", 0},
		"a list of HTML":                  {"<ul><li>\n\n" + line + "\n\n</ul>", 0},
		"after a list of HTML":            {"<ul><li>a<li>b</ul>\n\n" + line, 1},
		"after pre":                       {"<pre>x</pre>\n\n" + line, 1},
		"after pre in code":               {"use `<pre>` here\n\n" + line, 1},
		"after a type in angles":          {"a Map<String, Foo> and List<T>\n\n" + line, 1},
		"after an address":                {"<https://example.com> <ada@example.com>\n\n" + line, 1},
		"after a comparison":              {"if 1 <b then\n\n" + line, 1},
		"formula":                         {"$$\n" + line + "\n$$", 0},
		"formula over paragraphs":         {"$$\n\n" + line + "\n\n$$", 0},
		"formula inside lines":            {"a $$ b\n" + line + "\nc $$ d", 0},
		"formula of one sign":             {"a $b\n" + line + "\nc$ d", 0},
		"formula in a fence":              {"```math\n" + line + "\n```", 0},
		"after a formula":                 {"$$\nx\n$$\n\n" + line, 1},
		"after a price":                   {"costs $$ and $5\n\n" + line, 1},
		"after a formula in code":         {"`$$`\n\n" + line + "\n\n$$", 1},
		"after a fence in a list":         {"1. a\n   ```\n   x\n   ```\n2. - ```sh\n     y\n     ```\n\n" + line, 1},
		"after a fence in a quotation":    {"> ```\n> x\n\n" + line, 1},
		"after an open fence in a list":   {"- ```\n  x\n\n" + line, 1},
		"a fence after a quotation":       {"> x\n```\n" + line + "\n```", 0},
		"after a comment in a list":       {"- <!--\n  ```\n  -->\n\n" + line, 1},
		"after an open comment in a list": {"- <!-- x\n\ny\n\n" + line, 1},
		"after a comment with a fence":    {"Text\n<!--\n```\n-->\n" + line, 1},
		"after a comment with a command":  {"<!--\n" + line + "\n-->\n" + line, 1},
		"a comment over a fence":          {"<!--\n```\n" + line + "\n-->\n```\n" + line, 0},
		"raw HTML over a fence":           {"<?\n```\n?>\n```\n" + line + "\n```\n", 0},
		"pre over a fence":                {"<pre>\n```\n</pre>\n```\n" + line + "\n```\n", 0},
		"raw HTML over paragraphs":        {"<![CDATA[\n\n" + line + "\n\n]]>", 0},
		"a comment that does not end":     {"<!--\n\n" + line, 0},
		"GitLab's quotation":              {">>>\n" + line + "\n>>>", 0},
		"escaped":                         {"\\" + line, 0},
		"link":                            {"[a\n" + line + "\nb](c)", 0},
		"link title":                      {"[a](b \"\n" + line + "\n\")", 0},
		"reference":                       {"[a]: b \"\n" + line + "\n\"", 0},
		"image":                           {"![a\n" + line + "\n](c)", 0},
		"emphasis":                        {"*a\n" + line + "*", 0},
		"struck out":                      {"~~a\n" + line + "~~", 0},
		"table":                           {line + " | a\n--- | ---\nx | y", 0},
		"heading":                         {"# " + line, 0},
		"other command": {
			"/sluices halt prod\n/sluice-halt prod\n/sluice/halt\n/Sluice halt prod",
			0,
		},
		"empty":                   {"", 0},
		"no lines":                {"\n\n\n", 0},
		"quick actions beside it": {"/label ~x\n" + line + "\n/close", 1},
		"a mail's answer":         {"yes\n" + line + "\n\nOn Monday, X wrote:\n> /sluice halt staging", 1},
		"several":                 {line + "\n" + line + "\n\n" + line, 3},
		// one problem, and one line inside code
		"code span in a command's end": {line + " --x `a\n" + line + "`", 0},
	} {
		got, _ := command.Parse(test.body)
		if len(got) != test.want {
			t.Errorf("%s: %d commands, want %d", name, len(got), test.want)
		}
	}
}

// Who writes a command in a form that is not executed learns how to write it. Nobody else gets an answer.
func TestNearCommands(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"a capital":            {"/Sluice halt prod", "line 1: a command is written in lower case (write /sluice halt prod at the beginning of a line of its own)"},
		"capitals":             {"x\n/SLUICE Halt prod\n", "line 2: a command is written in lower case (write /sluice halt prod at"},
		"a list item":          {"- /sluice approve prod", "a command in a list is not executed (write /sluice approve prod at"},
		"a numbered list":      {"1. /sluice approve prod", "a command in a list"},
		"backticks":            {"please\n\n`/sluice approve prod`\n", "line 3: a command in backticks is not executed"},
		"a list and backticks": {"* `/sluice approve prod`", "a command in a list"},
		"indented":             {"  /sluice halt prod", ""},
		"a lazy quotation":     {"> a\n/sluice halt prod", ""},
		"beside a command":     {"/sluice help\n\n- /sluice halt prod", ""},
		"a fence":              {"```\n- /sluice halt prod\n```", ""},
		"quoted":               {"> /Sluice halt prod", ""},
		"in a sentence":        {"use `/sluice halt prod` to stop", ""},
		"explained":            {"- `/sluice halt prod`: stops the rollout", ""},
		"no command":           {"/Sluice is nice", ""},
		"an HTML comment":      {"<!--\n/Sluice halt prod\n-->", ""},
		"a name":               {"- /sluices halt prod", ""},
	} {
		commands, problems := command.Parse(test.body)
		got := ""
		if len(problems) > 0 {
			got = problems[0].String()
		}
		want := 0
		if name == "beside a command" {
			want = 1
		}
		if len(commands) != want || len(problems) > 1 || test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got commands %v, problems %v, want the problem %q", name, commands, problems, test.want)
		}
	}
}

func TestLinesAreNumbered(t *testing.T) {
	got, problems := command.Parse("hello\n\n/sluice help\n\n> x\n\n/sluice hepl\n")
	if len(got) != 1 || got[0].Line != 3 || got[0].Text != "/sluice help" {
		t.Errorf("commands: %+v", got)
	}
	if len(problems) != 1 || problems[0].Line != 7 || problems[0].Text != "/sluice hepl" {
		t.Errorf("problems: %+v", problems)
	}
}

// A line of dashes under a text makes it a heading. The author gets an answer, because otherwise they would wait.
func TestCommandInAHeadingIsReported(t *testing.T) {
	got, problems := command.Parse("/sluice help\n---\n")
	if len(got) != 0 || len(problems) != 1 || !strings.Contains(problems[0].String(), "heading") {
		t.Errorf("the result of Parse is %v, the problems are %v", got, problems)
	}
}

func TestAtMostFive(t *testing.T) {
	got, problems := command.Parse(strings.Repeat("/sluice help\n", 7))
	if len(got) != 5 || len(problems) != 2 || !strings.Contains(problems[0].Message, "at most 5") {
		t.Errorf("%d commands, problems %v", len(got), problems)
	}
	got, problems = command.Parse(strings.Repeat("/sluice nonsense\n", 500) + "/sluice help")
	if len(got) != 0 || len(problems) != 10 {
		t.Errorf("%d commands, %d problems", len(got), len(problems))
	}
}

func TestLongComment(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	if got, problems := command.Parse(long); len(got)+len(problems) != 0 {
		t.Error("a long comment without commands is none of Sluice's business")
	}
	got, problems := command.Parse(long + "\n/sluice help")
	if len(got) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Message, "bytes") {
		t.Errorf("the result of Parse is %v, the problems are %v", got, problems)
	}
}

// Markdown's parser reads only paragraphs of limited size, because its time grows with the square of some texts.
func TestHostileComments(t *testing.T) {
	for name, piece := range map[string]string{
		"quotes": ">", "brackets": "[", "parens": "[](", "stars": "*a ", "underscores": "_a", "ticks": "`a``",
		"lists":  "- ",
		"nested": "> - ", "tags": "<a ", "comments": "<!--", "tables": "|", "links": "[a](b", "images": "![",
		"entities": "&amp", "fences": "```\n",
		"rows": "a|b\n-|-\n", "tilde": "~~a", "references": "[a]: b\n", "spaces": "\n\n ", "steps": "  - a\n",
		"open": "<b>", "mixed": "<b></i>", "dollars": "$$ ",
	} {
		got, problems := command.Parse("x\n" + strings.Repeat(piece, 60_000/len(piece)) + "\n/sluice help\n")
		long := len(problems) == 1 && strings.Contains(problems[0].Message, "too long")
		if want := !strings.Contains("fences rows references spaces steps open mixed comments", name); long != want &&
			want || len(got) > 1 {
			t.Errorf("%s: %d commands, %v", name, len(got), problems)
		}
	}
	got, problems := command.Parse(strings.Repeat("> "+strings.Repeat("[", 500)+"\n/sluice help\n\n", 100))
	if len(got) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Message, "too many paragraphs") {
		t.Errorf("many paragraphs: %d commands, %v", len(got), problems)
	}
}

// BenchmarkHostileComment is the comment that took two seconds when the whole of it went through Markdown's
// parser.
func BenchmarkHostileComment(b *testing.B) {
	for _, piece := range []string{">", "[", "<!--", "<b></i>", "`a``", "> [\n/sluice help\n\n"} {
		b.Run(piece[:1], func(b *testing.B) {
			body := strings.Repeat(piece, 60_000/len(piece)) + "\n\n/sluice help\n"
			for b.Loop() {
				command.Parse(body)
			}
		})
	}
}

func TestRights(t *testing.T) {
	want := map[command.Right]string{
		command.RightRead:        "help status diff explain depends",
		command.RightWrite:       "retry cancel trust",
		command.RightEnvironment: "approve promote rollback freeze unfreeze halt resume",
	}
	got := map[command.Right][]string{}
	for _, s := range command.Verbs() {
		got[s.Right] = append(got[s.Right], string(s.Verb))
		if (command.Command{Verb: s.Verb}).Right() != s.Right {
			t.Errorf("%s: two rights", s.Verb)
		}
	}
	for right, verbs := range want {
		if text := strings.Join(got[right], " "); text != verbs {
			t.Errorf("%s: the text is %s, want %s", right, text, verbs)
		}
	}
	if r := (command.Command{Verb: "no such"}).Right(); r != command.RightEnvironment {
		t.Errorf("an unknown verb needs %s, which must be the highest right", r)
	}
}

func TestHelp(t *testing.T) {
	help := command.Help()
	for _, want := range []string{
		"| `/sluice promote ENV [--app A]… [--workspace WS]… [--commit REV] [--now] [--cancel] [--again TEXT] [--reason TEXT]` |",
		"| `/sluice freeze ENV\\|CLUSTER [--until T] --reason TEXT` |",
		"| `/sluice explain APP CLUSTER PATH` |",
		"| `/sluice halt ENV [--reason TEXT]` |",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("help lacks %s:\n%s", want, help)
		}
	}
	if got, problems := command.Parse(help); len(got)+len(problems) != 0 {
		t.Error("the help is read as commands")
	}
}

func TestParseUntil(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-12-24T18:00:00+01:00": "2026-12-24T17:00:00Z",
		"2026-12-24T18:00Z":         "2026-12-24T18:00:00Z",
		"2026-12-24":                "2026-12-24T00:00:00Z",
		"90m":                       "2026-11-21T13:30:00Z",
		"3d":                        "2026-11-24T12:00:00Z",
		"1h30m":                     "2026-11-21T13:30:00Z",
		"2026-11-20":                "in the past",
		"-1h":                       "is not a time",
		"0d":                        "is not a time",
		"3650d1":                    "is not a time",
		"9999d":                     "is not a time",
		"2040-01-01":                "more than ten years",
		"":                          "is not a time",
	} {
		got, err := command.ParseUntil(text, now)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is %v, want %s", text, err, want)
			}
			continue
		}
		if got.Format(time.RFC3339) != want {
			t.Errorf("%s: Format is %s, want %s", text, got.Format(time.RFC3339), want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/sluice promote prod --app a --now --reason \"x y\"")
	f.Add("> a\n/sluice help\n\n```\n/sluice help\n")
	f.Add("<!-- \n/sluice halt a\n-->\n>>>\n/sluice halt b\n>>>\n| a |\n|---|\n")
	f.Add("/sluice freeze a --until 3d --reason “x”\r\n/sluice —now")
	f.Fuzz(func(t *testing.T, body string) {
		got, problems := command.Parse(body)
		if len(got) > 5 || len(problems) > 10 {
			t.Fatalf("%d commands, %d problems", len(got), len(problems))
		}
		for _, p := range problems {
			if p.Message == "" || p.Hint == "" || p.Line < 1 {
				t.Fatalf("the problem is %+v", p)
			}
		}
		for _, c := range got {
			again, problems := command.Parse(c.String())
			if len(again) != 1 || len(problems) != 0 {
				t.Fatalf("%q becomes %q: %v", c.Text, c.String(), problems)
			}
			again[0].Text, again[0].Line = c.Text, c.Line
			if !reflect.DeepEqual(again[0], c) {
				t.Fatalf("%q: %+v becomes %+v", c.Text, c, again[0])
			}
		}
	})
}

// The documentation has the table of commands that /sluice help shows.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/promotion.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), strings.TrimSpace(command.Help())) {
		t.Error("docs/promotion.md shows other commands than /sluice help")
	}
}
