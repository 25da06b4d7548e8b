"""Proxies between the nodes and the members of PostgreSQL, to break networks with. Not a command.

Each node has a way of its own to each member: a port on loopback that leads to the member's. A way can be:
    slow        everything takes longer, in both directions
    silent      nothing arrives, and nothing is refused, as when packets are dropped; what was sent arrives once the way is mended
    one way     the same, in one direction: questions get lost (`to`), or answers (`back`)
    half-open   the member has closed its connections, and nothing tells the node, nor on new ones, until the way is mended: then it gets a reset
    dead        the same, but these connections stay as they are for ever, as behind a pooler or a proxy that has lost the other half

    ways = Ways({("node-1", "pg-1"): (20001, 5433)})     # listens on 20001, leads to 5433
    ways["node-1", "pg-1"].be(delay=0.2)
    ways["node-1", "pg-1"].mend()
    ways.end()

All of them run in one thread.
"""
import asyncio
import contextlib
import socket
import struct
import threading

TO, BACK = "to", "back"
# How often somebody who waits looks again.
LOOK = 0.02
# How many bytes are passed on together.
CHUNK = 1 << 16


class Way:
    """The way from one node to one member. What is set here counts at once."""

    def __init__(self, port, target):
        self.port, self.target = port, target
        self.delay, self.stopped, self.is_half_open, self.is_dead = 0, frozenset(), False, False
        self.connections, self.passed = set(), {TO: 0, BACK: 0}

    def be(self, delay=0, stopped=(), half_open=False, dead=False):
        """Breaks it. `stopped` are the directions in which nothing arrives."""
        self.delay, self.stopped, self.is_half_open, self.is_dead = delay, frozenset(stopped), half_open, dead
        for connection in list(self.connections) if half_open or dead else []:
            connection.is_cut, connection.is_dead = True, dead

    def mend(self):
        self.be()


class Connection:
    """One connection of a node, and its other half to the member."""

    def __init__(self, way):
        # The member's half is gone; and so it stays.
        self.way, self.is_cut, self.is_dead = way, way.is_half_open or way.is_dead, way.is_dead

    async def serve(self, reader, writer):
        far = None
        try:
            await self.wait_for(TO)
            if self.is_cut:
                await self.swallow(reader, writer)
                return
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.way.target)
            both = [asyncio.ensure_future(self.pass_on(TO, reader, far)), asyncio.ensure_future(self.pass_on(BACK, far_reader, writer))]
            watch = asyncio.ensure_future(self.until_cut())
            done, rest = await asyncio.wait([*both, watch], return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            await asyncio.gather(*both, watch, return_exceptions=True)
            if watch in done:
                far.close()
                await self.swallow(reader, writer)
        except OSError:
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    each.close()

    async def until_cut(self):
        while not self.is_cut:
            await asyncio.sleep(LOOK)

    async def pass_on(self, direction, reader, writer):
        """Passes on what is sent in one direction, and its end."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.way.delay:
                    await asyncio.sleep(self.way.delay)
                await self.wait_for(direction)
                writer.write(data)
                self.way.passed[direction] += len(data)
                await writer.drain()
            await self.wait_for(direction)

    async def wait_for(self, direction):
        while direction in self.way.stopped:
            await asyncio.sleep(LOOK)

    async def swallow(self, reader, writer):
        """Takes what the node sends, and does not answer. Ends when the node gives up or, once the way is mended, with a reset."""
        taking = asyncio.ensure_future(self.take(reader))
        try:
            while not taking.done() and (self.is_dead or self.way.is_half_open):
                await asyncio.sleep(LOOK)
        finally:
            taking.cancel()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def take(self, reader):
        with contextlib.suppress(OSError):
            while await reader.read(CHUNK):
                pass


class Ways(dict):
    """Ways by node and member. They are open when this returns."""

    def __init__(self, ports):
        """`ports` says for each way on which port it listens, and to which one it leads."""
        super().__init__({names: Way(port, target) for names, (port, target) in ports.items()})
        self.thread = None
        if self:
            self.loop, is_open = asyncio.new_event_loop(), threading.Event()
            self.thread = threading.Thread(target=self.run, args=(is_open,), daemon=True)
            self.thread.start()
            if not is_open.wait(10):
                raise OSError("the proxies do not start")

    def run(self, is_open):
        asyncio.set_event_loop(self.loop)
        for way in self.values():
            self.loop.run_until_complete(asyncio.start_server(self.server(way), "127.0.0.1", way.port))
        self.loop.call_soon(is_open.set)
        self.loop.run_forever()

    @staticmethod
    def server(way):
        async def serve(reader, writer):
            connection = Connection(way)
            way.connections.add(connection)
            # Cancelled at the end.
            with contextlib.suppress(asyncio.CancelledError):
                await connection.serve(reader, writer)
            way.connections.discard(connection)
        return serve

    def of(self, node):
        """The ways of a node, by member."""
        return {member: way for (its_node, member), way in self.items() if its_node == node}

    def mend(self):
        for way in self.values():
            way.mend()

    def end(self):
        """Closes everything."""
        async def stop():
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.loop.stop()
        if self.thread:
            self.loop.call_soon_threadsafe(lambda: asyncio.ensure_future(stop()))
            self.thread.join(10)
            self.thread = None
