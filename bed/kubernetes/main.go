// Command kubernetes is a real API server with its etcd, the controllers and the scheduler of Kubernetes, and a real
// kubectl, for the tests of the bed:
//
//	kubernetes apiserver -data DIR -etcd PORT [flags of kube-apiserver]
//	kubernetes controller-manager [flags of kube-controller-manager]
//	kubernetes scheduler [flags of kube-scheduler]
//	kubernetes kubectl [arguments of kubectl]
//
// The servers run until they get a signal.
package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: kubernetes apiserver|controller-manager|scheduler|kubectl …"))
	}
	verb, arguments := os.Args[1], os.Args[2:]
	switch verb {
	case "apiserver":
		if len(arguments) < 4 || arguments[0] != "-data" || arguments[2] != "-etcd" {
			fail(errors.New("usage: kubernetes apiserver -data DIR -etcd PORT …"))
		}
		client, err := serveEtcd(arguments[1], arguments[3])
		if err != nil {
			fail(err)
		}
		run(apiserver.NewAPIServerCommand(), append(arguments[4:], "--etcd-servers="+client))
	case "controller-manager":
		run(controllers.NewControllerManagerCommand(), arguments)
	case "scheduler":
		run(scheduler.NewSchedulerCommand(), arguments)
	case "kubectl":
		os.Args = append([]string{"kubectl"}, arguments...)
		run(kubectl.NewDefaultKubectlCommand(), arguments)
	default:
		fail(fmt.Errorf("unknown verb %q", verb))
	}
}

// run runs a command and ends the process.
func run(command *cobra.Command, arguments []string) {
	command.SetArgs(arguments)
	os.Exit(cli.Run(command))
}

// serveEtcd starts etcd on loopback, with its data below a folder. It ends with the process.
func serveEtcd(dir, port string) (client string, err error) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.UnsafeNoFsync = filepath.Join(dir, "etcd"), "error", true
	at := url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"} // nobody is a peer
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{at}, []url.URL{at}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	server, err := embed.StartEtcd(c)
	if err != nil {
		return "", err
	}
	select {
	case <-server.Server.ReadyNotify():
		return at.String(), nil
	case <-time.After(time.Minute):
		return "", errors.New("etcd is not ready after a minute")
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubernetes:", err)
	os.Exit(2)
}
