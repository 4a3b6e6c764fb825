package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// agent starts `sluice mcp` behind pipes and returns the session of a client.
func agent(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	o := System()
	var failed bytes.Buffer
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	o.In, o.Out, o.Err, o.Terminal = in, out, &failed, false
	ended := make(chan int, 1)
	ctx := context.WithoutCancel(t.Context()) // the test's ends before the cleanup
	go func() { ended <- Main(ctx, append([]string{"mcp"}, args...), o) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		_ = toServer.Close() // the end of the client's output ends the command
		if status := <-ended; status != ExitOK || failed.Len() > 0 {
			t.Errorf("sluice mcp ended with status %d and %q", status, &failed)
		}
		_ = session.Close()
	})
	return session
}

// asked calls a tool and returns its texts.
func asked(t *testing.T, s *mcp.ClientSession, tool string, arguments any) (texts []string, failed bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range result.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok {
			t.Fatalf("%s: content of type %T", tool, c)
		}
		texts = append(texts, text.Text)
	}
	return texts, result.IsError
}

// startedFleet returns the fleet that `sluice init` writes, with its first commit.
func startedFleet(t *testing.T) *hydratetest.Repo {
	t.Helper()
	repo := hydratetest.New(t)
	if got := runCommand(t, "init", repo.Dir); got.status != ExitOK {
		t.Fatalf("init: status %d: %s", got.status, got.err)
	}
	repo.Commit("Start a fleet")
	return repo
}

// Every argument has bounds in the schema, every tool says that it only reads, and no argument names a file.
func TestAgentToolsAreBounded(t *testing.T) {
	session := agent(t, "--repo", startedFleet(t).Dir, "--local")
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if a := tool.Annotations; a == nil || !a.ReadOnlyHint {
			t.Errorf("%s does not say that it only reads", tool.Name)
		}
		schema, ok := tool.InputSchema.(map[string]any)
		if !ok || schema["type"] != "object" || schema["additionalProperties"] == nil {
			t.Errorf("%s: the schema allows any arguments: %v", tool.Name, tool.InputSchema)
			continue
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			if items, ok := property["items"].(map[string]any); ok {
				if property["maxItems"] == nil {
					t.Errorf("%s: %s has no bound on its items", tool.Name, name)
				}
				property = items
			}
			switch property["type"] {
			case "string":
				if property["maxLength"] == nil || property["pattern"] == nil {
					t.Errorf("%s: %s has no bound: %v", tool.Name, name, property)
				}
			case "integer":
				if property["maximum"] == nil {
					t.Errorf("%s: %s has no bound: %v", tool.Name, name, property)
				}
			case "boolean":
			default:
				t.Errorf("%s: %s has the type %v", tool.Name, name, property["type"])
			}
			for _, word := range []string{"repo", "file", "dir", "folder", "path", "remote", "url", "with", "output"} {
				if strings.EqualFold(name, word) {
					t.Errorf("%s has an argument %s", tool.Name, name)
				}
			}
		}
	}
	slices.Sort(names)
	if want := []string{"affected", "check", "diff", "explain", "history", "status", "where"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
}

// Arguments that leave the repository, look like options or are too large are refused, and the session goes on.
func TestAgentRefusesHostileArguments(t *testing.T) {
	repo := startedFleet(t)
	session := agent(t, "--repo", repo.Dir, "--local")
	type object = map[string]any
	for name, call := range map[string]struct {
		tool      string
		arguments object
		want      string // in the answer
	}{
		"unknown argument":      {"status", object{"repo": "/etc"}, "repo"},
		"an option":             {"affected", object{"base": "--upload-pack=touch /tmp/x", "head": "HEAD"}, "pattern"},
		"a file":                {"diff", object{"base": "../../etc/passwd"}, "one revision each"},
		"an absolute file":      {"where", object{"revision": "/etc/passwd"}, "no commit is named"},
		"a range":               {"affected", object{"base": "HEAD..HEAD", "head": "HEAD"}, "one revision each"},
		"a head without a base": {"diff", object{"head": "HEAD"}, "head needs base"},
		"a control character":   {"explain", object{"app": "hello\x1b[2J", "cluster": "dev-1"}, "pattern"},
		"a line break":          {"explain", object{"app": "hello\nx", "cluster": "dev-1"}, "pattern"},
		"a long name":           {"status", object{"environment": strings.Repeat("a", 300)}, "maxLength"},
		"many names":            {"where", object{"apps": slices.Repeat([]string{"hello"}, 200)}, "maxItems"},
		"a large number":        {"history", object{"environment": "prod", "number": 1 << 40}, "maximum"},
		"a negative number":     {"history", object{"environment": "prod", "number": -1}, "minimum"},
		"a wrong type":          {"where", object{"apps": "hello"}, "type"},
		"a missing argument":    {"explain", object{}, "required"},
		"two meanings":          {"explain", object{"app": "hello", "cluster": "dev-1", "allClusters": true}, "exclude"},
		"a search at a commit":  {"where", object{"revision": "HEAD", "image": "x"}, "leave out revision"},
	} {
		texts, failed := asked(t, session, call.tool, call.arguments)
		if !failed || !strings.Contains(strings.Join(texts, "\n"), call.want) {
			t.Errorf("%s: got %q (error %t), want an error with %q", name, texts, failed, call.want)
		}
	}
	if texts, failed := asked(t, session, "where", object{}); failed || !strings.Contains(texts[0], `"dev-1"`) {
		t.Errorf("after the refusals: got %q (error %t)", texts, failed)
	}
}

// A mistake is the document that -o json writes, with the place and the next step.
func TestAgentErrors(t *testing.T) {
	session := agent(t, "--repo", startedFleet(t).Dir, "--local")
	texts, failed := asked(t, session, "status", map[string]any{"environment": "prd"})
	var document errorDocument
	if err := json.Unmarshal([]byte(texts[0]), &document); err != nil || !failed || len(texts) != 1 ||
		!strings.Contains(document.Error.Message, "did you mean prod?") {
		t.Errorf("got %q (error %t, %v), want one error document that suggests prod", texts, failed, err)
	}
}

// Whatever a client writes, the command ends without a panic, and answers or ends.
func TestAgentReadsGarbage(t *testing.T) {
	dir := startedFleet(t).Dir
	for name, text := range map[string]string{
		"no JSON":       "hello\n",
		"half a line":   `{"jsonrpc":"2.0","id":1,"method":"tools/call"`,
		"a long line":   strings.Repeat("a", maxCallLine*2) + "\n",
		"deep JSON":     strings.Repeat("[", 100_000) + "\n",
		"before hello":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"where","arguments":{}}}` + "\n",
		"no such tool":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"promote","arguments":{}}}` + "\n",
		"wrong version": `{"jsonrpc":"1.0","id":{},"method":7}` + "\n",
	} {
		o := System()
		var out, failed bytes.Buffer
		o.In, o.Out, o.Err, o.Terminal = strings.NewReader(text), &out, &failed, false
		status := Main(t.Context(), []string{"mcp", "--repo", dir, "--local"}, o)
		t.Logf("%s: status %d, %d bytes of output, %q", name, status, out.Len(), &failed)
		if strings.Contains(out.String(), `"dev-1"`) {
			t.Errorf("%s: got an answer: %s", name, &out)
		}
	}
}

// A call that finds too many others waiting, or whose answer is too large, says what to do.
func TestAgentLimits(t *testing.T) {
	calls := &mcpCalls{waiting: make(chan struct{}, 1), running: make(chan struct{}, 1)}
	large := calls.answer(t.Context(), func(_ context.Context, o IO) error {
		_, err := o.Out.Write(bytes.Repeat([]byte("a"), maxAnswer+1))
		return err
	})
	calls.waiting <- struct{}{}
	full := calls.answer(t.Context(), func(context.Context, IO) error { return nil })
	for want, got := range map[string]*mcp.CallToolResult{
		"select environments": large, "call again when one has ended": full,
	} {
		text, _ := got.Content[0].(*mcp.TextContent)
		if !got.IsError || len(got.Content) != 1 || !strings.Contains(text.Text, want) {
			t.Errorf("got %q (error %t), want an error with %q", text.Text, got.IsError, want)
		}
	}
}

// Whoever steers the client chooses the commits of a diff. They do not choose the servers that Sluice asks.
func TestAgentAsksOnlyServersOfTheTrunk(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	repo := startedFleet(t)
	repo.Git("checkout", "-q", "-b", "evil")
	chart := "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: evil}\nspec:\n  namespace: evil\n  placement: {}\n" +
		"  source: {helm: {chart: evil, repo: " + server.URL + ", version: 1.0.0}}\n"
	repo.Write("apps/evil/app.yaml", chart)
	repo.Commit("Name a server")
	repo.Write("apps/evil/app.yaml", strings.Replace(chart, "1.0.0", "1.0.1", 1))
	repo.Commit("Use it")
	repo.Git("checkout", "-q", "main")
	session := agent(t, "--repo", repo.Dir, "--local")
	texts, _ := asked(t, session, "diff", map[string]any{"base": "evil~1", "head": "evil"})
	if n := requests.Load(); n > 0 || !strings.Contains(strings.Join(texts, ""), "evil") {
		t.Errorf("a diff of commits that name a server: it was asked %d times, want never; answer %.300q", n, texts)
	}
}
