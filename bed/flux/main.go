// Command flux is in the bed what notification-controller is in Flux: it receives the events of the controllers and
// writes the commit statuses that Providers and Alerts ask for, to Gitea only. The module of notification-controller is
// not on the Go module proxy. The types of the objects and events, and the language of the expressions, are Flux's; what
// is done with them follows https://fluxcd.io/flux/components/notification/ and no further than a commit status needs.
//
//	flux -listen ADDRESS
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	v1 "github.com/fluxcd/notification-controller/api/v1"
	"github.com/fluxcd/notification-controller/api/v1beta3"
	event "github.com/fluxcd/pkg/apis/event/v1beta1"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address for the events of controllers")
	flag.Parse()
	if err := run(*listen); err != nil {
		log.Fatal("flux: ", err)
	}
}

func run(listen string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta3.AddToScheme(scheme)); err != nil {
		return err
	}
	address, err := config.GetConfig()
	if err != nil {
		return err
	}
	cluster, err := client.New(address, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	server := http.Server{
		Addr: listen, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var e event.Event
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&e); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			log.Printf("%s/%s %s %s: %q %v", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Severity, e.Reason, e.Message, e.Metadata)
			w.WriteHeader(http.StatusAccepted)
			go func() { // as notification-controller, which has answered before it writes
				if err := (&notifier{cluster}).notify(context.Background(), e); err != nil {
					log.Print(err)
				}
			}()
		}),
	}
	return server.ListenAndServe()
}

// notifier writes commit statuses.
type notifier struct{ cluster client.Client }

// notify writes the statuses of an event that the alerts of its namespace ask for.
func (n *notifier) notify(ctx context.Context, e event.Event) error {
	// An event has for the alert only the metadata of its own group, without the group.
	own := map[string]string{}
	for key, value := range e.Metadata {
		if name, ok := strings.CutPrefix(key, e.InvolvedObject.GroupVersionKind().Group+"/"); ok {
			own[name] = value
		}
	}
	e.Metadata = own
	var alerts v1beta3.AlertList
	if err := n.cluster.List(ctx, &alerts); err != nil {
		return err
	}
	var failed []error
	for i := range alerts.Items {
		a := &alerts.Items[i]
		wanted, err := n.matches(ctx, a, &e)
		if err == nil && wanted {
			err = n.write(ctx, a, &e)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("alert %s: %w", a.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (n *notifier) matches(ctx context.Context, a *v1beta3.Alert, e *event.Event) (bool, error) {
	if a.Spec.Suspend || a.Spec.EventSeverity == event.EventSeverityError && e.Severity != event.EventSeverityError {
		return false, nil
	}
	for _, pattern := range a.Spec.ExclusionList {
		if is, err := regexp.MatchString(pattern, e.Message); err != nil || is {
			return false, err
		}
	}
	for _, s := range a.Spec.EventSources {
		if is, err := n.from(ctx, a.Namespace, s, e.InvolvedObject); err != nil || is {
			return is, err
		}
	}
	return false, nil
}

// from reports whether an object is one of a source of events.
func (n *notifier) from(
	ctx context.Context, namespace string, s v1.CrossNamespaceObjectReference, o corev1.ObjectReference,
) (bool, error) {
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	if s.Kind != o.Kind || namespace != o.Namespace || s.Name != "*" && s.Name != o.Name {
		return false, nil
	}
	if s.Name != "*" || s.MatchLabels == nil {
		return true, nil
	}
	has := metav1.PartialObjectMetadata{}
	has.SetGroupVersionKind(o.GroupVersionKind())
	if err := n.cluster.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, &has); err != nil {
		return false, err
	}
	return labels.SelectorFromSet(s.MatchLabels).Matches(labels.Set(has.GetLabels())), nil
}

// write writes the status of an event to Gitea.
func (n *notifier) write(ctx context.Context, a *v1beta3.Alert, e *event.Event) error {
	var p v1beta3.Provider
	if err := n.cluster.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.ProviderRef.Name}, &p); err != nil {
		return err
	}
	if p.Spec.Type != v1beta3.GiteaProvider || p.Spec.SecretRef == nil {
		return fmt.Errorf("provider %s is of the type %s: only gitea with a Secret is known here", p.Name, p.Spec.Type)
	}
	name, err := statusName(ctx, a, &p, e)
	if err != nil {
		return err
	}
	revision, ok := e.GetRevision()
	if !ok {
		return errors.New("the event has no revision")
	}
	_, commit, ok := strings.Cut(revision, "@sha1:")
	if !ok {
		return fmt.Errorf("the revision %q is no commit", revision)
	}
	var secret corev1.Secret
	if err := n.cluster.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: p.Spec.SecretRef.Name}, &secret); err != nil {
		return err
	}
	page, err := url.Parse(p.Spec.Address)
	if err != nil {
		return err
	}
	state := "success"
	switch {
	case e.HasReason(meta.ProgressingReason):
		state = "pending"
	case e.Severity == event.EventSeverityError:
		state = "failure"
	}
	body, err := json.Marshal(map[string]string{"state": state, "context": name, "description": e.Reason})
	if err != nil {
		return err
	}
	page.Path = "/api/v1/repos" + page.Path + "/statuses/" + commit
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, page.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "token "+string(secret.Data["token"]))
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s on %s: %s %s", name, commit, answer.Status, said)
	}
	if err == nil {
		log.Printf("status %s of %s is %s", name, commit, state)
	}
	return err
}

// statusName evaluates the expression of a provider.
func statusName(ctx context.Context, a *v1beta3.Alert, p *v1beta3.Provider, e *event.Event) (string, error) {
	expression, err := cel.NewExpression(p.Spec.CommitStatusExpr, cel.WithCompile(), cel.WithOutputType(types.StringType),
		cel.WithStructVariables("event", "alert", "provider"))
	if err != nil {
		return "", err
	}
	variables := map[string]any{}
	for name, of := range map[string]any{"event": e, "alert": a, "provider": p} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
		if err != nil {
			return "", err
		}
		variables[name] = (&unstructured.Unstructured{Object: object}).Object
	}
	return expression.EvaluateString(ctx, variables)
}
